package routertest

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/wire"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Router is one router. It is safe for concurrent use.
type Router struct {
	shard    string // the real server's address
	alone    bool   // a standalone server, which has no retryable writes
	process  bson.ObjectID
	listener net.Listener
	conns    sync.WaitGroup

	mu      sync.Mutex
	open    map[net.Conn]bool
	closed  bool
	skew    time.Duration
	keys    map[string][]string // of the sharded collections, by namespace
	refused int

	restricted bool
	granted    []string // the actions that users have, if they are restricted
}

// Start starts a router in front of the server at uri. It ends with the test.
func Start(tb testing.TB, uri string) *Router {
	tb.Helper()
	shard, alone, err := primary(tb.Context(), uri)
	if err != nil {
		tb.Fatalf("routertest: %v", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("routertest: %v", err)
	}
	r := &Router{shard: shard, alone: alone, process: bson.NewObjectID(), listener: listener, open: map[net.Conn]bool{}, keys: map[string][]string{}}
	r.conns.Go(r.accept)
	tb.Cleanup(r.close)
	return r
}

// primary is the address of the server that takes writes.
func primary(ctx context.Context, uri string) (address string, alone bool, err error) {
	opts := options.Client().ApplyURI(uri)
	client, err := mongo.Connect(opts)
	if err != nil {
		return "", false, err
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	var hello struct{ Primary, SetName, Msg string }
	err = client.Database("admin").RunCommand(ctx, bson.D{{Key: "isMaster", Value: 1}}).Decode(&hello)
	if hello.Primary != "" {
		return hello.Primary, false, err
	}
	return opts.Hosts[0], hello.Msg != "isdbgrid", err
}

// URI is the router's connection string. Those of several routers are joined by
// [URI].
func (r *Router) URI() string { return URI(r) }

// URI is the connection string of a cluster with these routers.
func URI(routers ...*Router) string {
	addresses := make([]string, len(routers))
	for i, r := range routers {
		addresses[i] = r.listener.Addr().String()
	}
	return "mongodb://" + strings.Join(addresses, ",") + "/"
}

// Shard makes a collection ("db.collection") sharded by these fields.
func (r *Router) Shard(namespace string, fields ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys[namespace] = fields
}

// Skew sets the router's clock, as the difference to this machine's.
func (r *Router) Skew(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.skew = d
}

// Refused counts the commands and statements that lacked the shard key.
func (r *Router) Refused() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}

func (r *Router) now() bson.DateTime {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bson.NewDateTimeFromTime(time.Now().Add(r.skew))
}

func (r *Router) accept() {
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.conns.Go(func() { r.serve(conn) })
	}
}

// serve answers the messages of one connection, with its own connection to the
// shard.
func (r *Router) serve(client net.Conn) {
	shard, err := net.Dial("tcp", r.shard)
	if err != nil {
		_ = client.Close()
		return
	}
	if !r.track(client, shard) {
		return
	}
	defer r.forget(client, shard)
	for {
		request, err := wire.Read(client)
		if err != nil {
			return
		}
		answer, err := r.answer(request, shard)
		if err != nil {
			return
		}
		if _, err := client.Write(answer); err != nil {
			return
		}
	}
}

// answer refuses a request, or passes it to the shard.
func (r *Router) answer(request wire.Message, shard io.ReadWriter) ([]byte, error) {
	command, ours := request.Command()
	if !ours {
		return nil, errors.New("routertest: a message that is no command")
	}
	routed, refusal := r.route(command)
	if refusal != nil {
		return request.Reply(refusal)
	}
	forward, err := request.With(routed)
	if err != nil {
		return nil, err
	}
	if _, err := shard.Write(forward); err != nil {
		return nil, err
	}
	reply, err := wire.Read(shard)
	if err != nil {
		return nil, err
	}
	answer, ours := reply.Command()
	if !ours {
		return nil, errors.New("routertest: a reply that is no document")
	}
	return reply.With(r.pass(command, answer))
}

// track records connections, unless the router is closed.
func (r *Router) track(conns ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		if r.closed {
			_ = c.Close()
		} else {
			r.open[c] = true
		}
	}
	return !r.closed
}

func (r *Router) forget(conns ...net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(r.open, c)
	}
}

func (r *Router) close() {
	_ = r.listener.Close()
	r.mu.Lock()
	r.closed = true
	for c := range r.open {
		_ = c.Close()
	}
	r.mu.Unlock()
	r.conns.Wait()
}
