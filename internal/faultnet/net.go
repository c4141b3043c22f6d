package faultnet

import (
	"context"
	"net"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Net implements the driver's ContextDialer. It is safe for concurrent use.
type Net struct {
	mu    sync.Mutex
	armed []*Fault
	fired map[Kind]int
	delay time.Duration
}

// New returns a network without faults.
func New() *Net { return &Net{fired: map[Kind]int{}} }

// Arm makes the next message of this command meet a fault. The command is
// named as on the wire ("findAndModify", "find"); "" is any. What goes to
// the admin database, as the driver's own commands do, meets no faults.
func (n *Net) Arm(kind Kind, command string) *Fault {
	return n.ArmWhere(kind, func(name string, _ bson.Raw) bool { return command == "" || name == command })
}

// ArmWhere is Arm for the next message that matches.
func (n *Net) ArmWhere(kind Kind, matches func(command string, body bson.Raw) bool) *Fault {
	return n.arm(&Fault{kind: kind, matches: matches})
}

// ArmRewrite arms a Rewrite or a Refuse: rewrite returns the document that the
// client gets for the server's reply.
func (n *Net) ArmRewrite(kind Kind, command string, rewrite func(reply bson.Raw) any) *Fault {
	return n.arm(&Fault{
		kind:    kind,
		matches: func(name string, _ bson.Raw) bool { return name == command },
		rewrite: rewrite,
	})
}

func (n *Net) arm(f *Fault) *Fault {
	f.fired, f.let, f.done = make(chan struct{}), make(chan struct{}), make(chan struct{})
	n.mu.Lock()
	defer n.mu.Unlock()
	n.armed = append(n.armed, f)
	return f
}

// Disarm forgets the faults that have not fired.
func (n *Net) Disarm() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.armed = nil
}

// Delay delays every message to the server.
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
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, net: n, closed: make(chan struct{})}, nil
}

// meets takes the first armed fault that matches out of the list.
func (n *Net) meets(command string, body bson.Raw) *Fault {
	if db, _ := body.Lookup("$db").StringValueOK(); db == "admin" {
		return nil // the driver's own: handshakes, heartbeats, the end of sessions
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
	return nil
}

func (n *Net) latency() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.delay
}
