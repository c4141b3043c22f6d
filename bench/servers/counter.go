package servers

import (
	"context"
	"net"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
	"go.mongodb.org/mongo-driver/v2/event"
	"google.golang.org/grpc"
)

// Counter counts a subject's commands to its servers.
type Counter struct{ sent atomic.Int64 }

// Total is the number of commands so far.
func (c *Counter) Total() int64 { return c.sent.Load() }

// mongo counts a driver's commands. Those of the connections' handshakes and
// heartbeats are not the subject's.
func (c *Counter) mongo() *event.CommandMonitor {
	return &event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		if e.CommandName != "endSessions" {
			c.sent.Add(1)
		}
	}}
}

// A counter is a redis.Hook.

func (c *Counter) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (c *Counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.sent.Add(1)
		return next(ctx, cmd)
	}
}

func (c *Counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.sent.Add(int64(len(cmds)))
		return next(ctx, cmds)
	}
}

// Etcd counts calls, and each message sent on streams (watches, keep-alives).
func (c *Counter) Etcd() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			c.sent.Add(1)
			return invoke(ctx, method, req, reply, conn, opts...)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			s, err := open(ctx, desc, conn, method, opts...)
			return &countedStream{s, c}, err
		}),
	}
}

type countedStream struct {
	grpc.ClientStream
	counter *Counter
}

func (s *countedStream) SendMsg(m any) error {
	s.counter.sent.Add(1)
	return s.ClientStream.SendMsg(m)
}
