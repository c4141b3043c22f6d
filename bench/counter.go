package main

import (
	"context"
	"maps"
	"net"
	"sync"

	"github.com/redis/go-redis/v9"
	"go.mongodb.org/mongo-driver/v2/event"
	"google.golang.org/grpc"
)

// counter counts a subject's commands to its servers, by name.
type counter struct {
	mu   sync.Mutex
	sent map[string]int64
}

func (c *counter) add(name string, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sent == nil {
		c.sent = map[string]int64{}
	}
	c.sent[name] += n
}

// total is the number of commands so far.
func (c *counter) total() (n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.sent {
		n += k
	}
	return n
}

func (c *counter) byName() map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.sent)
}

// mongo counts a driver's commands. Those of the connections' handshakes and
// heartbeats are not the subject's.
func (c *counter) mongo() *event.CommandMonitor {
	return &event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		if e.CommandName != "endSessions" {
			c.add(e.CommandName, 1)
		}
	}}
}

// A counter is a redis.Hook.

func (c *counter) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.add(cmd.Name(), 1)
		return next(ctx, cmd)
	}
}

func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.add("pipeline", int64(len(cmds)))
		return next(ctx, cmds)
	}
}

// etcd counts calls, and each message sent on streams (watches, keep-alives).
func (c *counter) etcd() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			c.add(method, 1)
			return invoke(ctx, method, req, reply, conn, opts...)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			s, err := open(ctx, desc, conn, method, opts...)
			return &countedStream{s, c, method}, err
		}),
	}
}

type countedStream struct {
	grpc.ClientStream
	counter *counter
	method  string
}

func (s *countedStream) SendMsg(m any) error {
	s.counter.add(s.method, 1)
	return s.ClientStream.SendMsg(m)
}
