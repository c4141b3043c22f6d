package faultnet

import (
	"context"
	"net"
	"sync"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Net implements the driver's ContextDialer. It is safe for concurrent use.
type Net struct {
	mu      sync.Mutex
	armed   []*Fault
	blocked func(command string, message []byte) bool
	refusal func(command string, body bson.Raw) any
	fired   map[Kind]int
	delay   time.Duration
	open    map[*conn]struct{}
	down    bool
	over    options.ContextDialer // nil for the machine's own network
}

// New returns a network without faults.
func New() *Net { return &Net{fired: map[Kind]int{}, open: map[*conn]struct{}{}} }

// Over connects by another dialer from now on.
func (n *Net) Over(dialer options.ContextDialer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.over = dialer
}

// dial makes a connection without faults.
func (n *Net) dial(ctx context.Context, network, address string) (net.Conn, error) {
	n.mu.Lock()
	over := n.over
	n.mu.Unlock()
	if over == nil {
		over = &net.Dialer{}
	}
	return over.DialContext(ctx, network, address)
}

// Arm makes the next message of this command meet a fault. The command has its
// name on the wire ("findAndModify", "find"); "" is any command. Messages to
// the admin database, such as the driver's own commands, meet no faults.
func (n *Net) Arm(kind Kind, command string) *Fault {
	return n.ArmWhere(kind, func(name string, _ bson.Raw) bool { return command == "" || name == command })
}

// ArmWhere is Arm for the next message that matches.
func (n *Net) ArmWhere(kind Kind, matches func(command string, body bson.Raw) bool) *Fault {
	return n.arm(&Fault{kind: kind, matches: matches})
}

// ArmRewrite arms a Rewrite or a Refuse: rewrite returns the document that the
// client gets in place of the server's reply.
func (n *Net) ArmRewrite(kind Kind, command string, rewrite func(reply bson.Raw) any) *Fault {
	return n.arm(&Fault{
		kind:    kind,
		matches: func(name string, _ bson.Raw) bool { return name == command },
		rewrite: rewrite,
	})
}

func (n *Net) arm(f *Fault) *Fault {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.armed = append(n.armed, f.prepare())
	return f
}

// Refuse answers each message for which refusal has a document, with this document. The server never gets the message.
func (n *Net) Refuse(refusal func(command string, body bson.Raw) any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refusal = refusal
}

// Disarm removes the faults that have not fired.
func (n *Net) Disarm() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.armed = nil
}

// Block stalls every matching message to the server until its client gives up,
// as a server does with a document that is blocked for all writes. A message is
// more than the body of its command: it also has the statements of an update.
// Block(nil) ends this for later messages.
func (n *Net) Block(matches func(command string, message []byte) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.blocked = matches
}

// Reset resets all open connections, including the driver's own monitoring
// ones, as a router does that drops them.
func (n *Net) Reset() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.open {
		c.reset()
	}
}

// Down(true) refuses new connections, as if there were no server, and resets
// the open ones. Down(false) ends that.
func (n *Net) Down(down bool) {
	n.mu.Lock()
	n.down = down
	n.mu.Unlock()
	if down {
		n.Reset()
	}
}

// Delay delays every message to the server, and the opening of a connection, which
// TCP does in one round trip.
func (n *Net) Delay(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delay = d
}

// Fired counts the faults of a kind that have fired.
func (n *Net) Fired(kind Kind) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.fired[kind]
}

// DialContext connects to the server.
func (n *Net) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	n.mu.Lock()
	down := n.down
	n.mu.Unlock()
	if down {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	select {
	case <-time.After(n.latency()):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	c, err := n.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	opened := &conn{Conn: newLate(c, n.latency), net: n, network: network, address: address, closed: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open[opened] = struct{}{}
	return opened, nil
}

func (n *Net) forget(c *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.open, c)
}

func (n *Net) blocks(command string, message []byte) bool {
	n.mu.Lock()
	blocked := n.blocked
	n.mu.Unlock()
	return blocked != nil && blocked(command, message)
}

// meets removes the first matching armed fault from the list.
func (n *Net) meets(command string, body bson.Raw) *Fault {
	if db, _ := body.Lookup("$db").StringValueOK(); db == "admin" {
		return nil // the driver's own: handshakes, heartbeats, ends of sessions
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, f := range n.armed {
		if f.matches(command, body) {
			n.armed = append(n.armed[:i:i], n.armed[i+1:]...)
			n.fired[f.kind]++
			return f
		}
	}
	if n.refusal == nil || body == nil {
		return nil
	}
	if refusal := n.refusal(command, body); refusal != nil {
		return (&Fault{kind: Refuse, rewrite: func(bson.Raw) any { return refusal }}).prepare()
	}
	return nil
}

func (n *Net) latency() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.delay
}
