package main

import (
	"context"
	"io"
	stdnet "net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/mongotest"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// proxy is a way to the server that can be cut, for other processes.
type proxy struct {
	net     *faultnet.Net
	uri     string
	refused atomic.Int32 // connections
	held    *faultnet.Fault
}

// newProxy puts a proxy before the server of this URI: before the primary, if it has several addresses.
func newProxy(tb testing.TB, uri string) *proxy {
	tb.Helper()
	u, err := url.Parse(uri)
	must(tb, err)
	listener, err := stdnet.Listen("tcp", "127.0.0.1:0")
	must(tb, err)
	server, _, _ := strings.Cut(u.Host, ",")
	var hello struct{ Primary string }
	must(tb, mongotest.Client(tb).Database("admin").RunCommand(tb.Context(), bson.D{{Key: "hello", Value: 1}}).Decode(&hello))
	if hello.Primary != "" {
		server = hello.Primary
	}
	u.Host = listener.Addr().String()
	query := u.Query()
	query.Del("replicaSet")
	query.Set("directConnection", "true") // the server would name its own address
	u.RawQuery = query.Encode()
	x := &proxy{net: faultnet.New(), uri: u.String()}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			upstream, err := x.net.DialContext(context.Background(), "tcp", server)
			if err != nil {
				x.refused.Add(1)
				client.Close()
				continue
			}
			for _, pair := range [][2]stdnet.Conn{{client, upstream}, {upstream, client}} {
				all.Go(func() {
					_, _ = io.Copy(pair[0], pair[1])
					pair[0].Close()
					pair[1].Close()
				})
			}
		}
	})
	tb.Cleanup(func() {
		listener.Close()
		x.net.Down(true)
		all.Wait()
	})
	return x
}
