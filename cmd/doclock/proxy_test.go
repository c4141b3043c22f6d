package main

import (
	"context"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"

	"github.com/doclock/doclock/internal/faultnet"
)

// proxy is a way to the server that can be cut, for other processes.
type proxy struct {
	net     *faultnet.Net
	refused atomic.Int32 // connections
}

// proxied puts a proxy between the server and the processes of the place.
func (p *place) proxied() *proxy {
	p.Helper()
	u, err := url.Parse(p.uri)
	if err != nil {
		p.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		p.Fatal(err)
	}
	x := &proxy{net: faultnet.New()}
	server := u.Host
	u.Host = listener.Addr().String()
	query := u.Query()
	query.Del("replicaSet")
	query.Set("directConnection", "true") // the server would name its own address
	u.RawQuery = query.Encode()
	p.uri = u.String()
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
			for _, pair := range [][2]net.Conn{{client, upstream}, {upstream, client}} {
				all.Go(func() {
					_, _ = io.Copy(pair[0], pair[1])
					pair[0].Close()
					pair[1].Close()
				})
			}
		}
	})
	p.Cleanup(func() { // after the processes, which were started later
		listener.Close()
		x.net.Down(true)
		all.Wait()
	})
	return x
}
