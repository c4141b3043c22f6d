package servers

import (
	"context"
	"net"
	"time"

	"github.com/doclock/doclock/internal/faultnet"
)

// Network puts a latency between the clients and every server. It is the dialer
// of all clients: what a client writes reaches the server one round trip later.
//
// It is a dialer, and not a proxy before the servers, for two reasons. A driver
// finds the members of a replica set by itself, and would go round a proxy. And
// a proxy handles each message twice more: toxiproxy 2.12.0 with no latency
// added 0.045 ms to a round trip, a fifth of a command to redis.
type Network struct {
	RoundTrip time.Duration
}

// DialContext implements options.ContextDialer.
func (n *Network) DialContext(ctx context.Context, kind, address string) (net.Conn, error) {
	slow := faultnet.New()
	slow.Delay(n.RoundTrip)
	return slow.DialContext(ctx, kind, address)
}
