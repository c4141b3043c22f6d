package locktest

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/doclock/doclock/internal/wire"
	"github.com/doclock/doclock/locktest/internal/store"
	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// dialer makes the connections of one client.
type dialer struct {
	*Cluster
	cut map[*member]bool // the members that the client doesn't reach; needs the mutex
}

// conn is the member's end of a connection.
type conn struct {
	net.Conn
	from *dialer
	to   *member
}

// DialContext connects to a member by its address.
func (d *dialer) DialContext(_ context.Context, _, address string) (net.Conn, error) {
	to, err := d.member(address)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over || d.cut[to] {
		return nil, fmt.Errorf("locktest: this client doesn't reach %s", address)
	}
	here, there := net.Pipe()
	c := &conn{there, d, to}
	d.conns[c] = true
	d.serving.Go(func() {
		d.serve(c)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.hangUp(func(other *conn) bool { return other == c })
	})
	return here, nil
}

// hangUp breaks connections. It needs the mutex.
func (c *Cluster) hangUp(which func(*conn) bool) {
	for conn := range c.conns {
		if which(conn) {
			_ = conn.Close() // of a pipe: no error
			delete(c.conns, conn)
		}
	}
}

// serve answers the commands of a connection, one after the other, until it breaks.
func (c *Cluster) serve(conn *conn) {
	for {
		message, err := wire.Read(conn)
		if err != nil {
			return
		}
		command, err := parse(message)
		if err != nil {
			return
		}
		reply := c.answer(conn.to, command)
		if value.IsMissing(reply) {
			return
		}
		if message.Unanswered() {
			continue
		}
		out, err := message.Reply(bson.Raw(reply.Value))
		if err != nil {
			return
		}
		if _, err := conn.Write(out); err != nil {
			return
		}
	}
}

// answer is a member's reply to a command, or none if the connection is to break.
func (c *Cluster) answer(m *member, command value.Document) bson.RawValue {
	if name := command[0].Key; name == "hello" || name == "isMaster" {
		return c.hello(m, command)
	}
	met, refusal, delay := c.take(command)
	switch met {
	case refused:
		return refusal
	case requestLost:
		c.wait(breaking)
		return value.Missing
	case replyLost:
		c.execute(m, command)
		c.wait(breaking)
		return value.Missing
	case delayed:
		if !c.wait(delay) {
			return value.Missing
		}
	}
	return c.kept(m, c.execute(m, command))
}

// breaking is how long a connection takes to break: the driver reads again at once, until
// its time is over, and without it no time would pass.
const breaking = time.Millisecond

// wait waits in virtual time. It returns false at the cluster's end.
func (c *Cluster) wait(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-c.ended:
		return false
	}
}

// hello is what a member says of itself. If the asker knows that already, the member
// waits until it changes.
func (c *Cluster) hello(m *member, command value.Document) bson.RawValue {
	known, awaits := value.Whole(value.Get(command.Get("topologyVersion"), "counter"))
	over := time.NewTimer(maxAwait(command))
	defer over.Stop()
	for {
		c.mu.Lock()
		reply, same, changed := m.hello(), m.version == known, c.changed
		c.mu.Unlock()
		if !awaits || !same {
			return reply
		}
		select {
		case <-changed:
		case <-over.C:
			return reply
		case <-c.ended:
			return value.Missing
		}
	}
}

func maxAwait(command value.Document) time.Duration {
	ms, _ := value.Whole(command.Get("maxAwaitTimeMS"))
	return milliseconds(ms)
}

// hello needs the mutex.
func (m *member) hello() bson.RawValue {
	reply := value.Document{
		{Key: "helloOk", Value: value.True},
		{Key: "setName", Value: value.String(setName)},
		{Key: "setVersion", Value: value.Int(1)},
		{Key: "hosts", Value: value.Of(names)},
		{Key: "me", Value: value.String(m.name)},
		{Key: "isWritablePrimary", Value: value.Bool(m.leads)},
		{Key: "secondary", Value: value.Bool(!m.leads)},
		{Key: "topologyVersion", Value: m.topologyVersion()},
		{Key: "localTime", Value: value.Time(m.now())},
		{Key: "logicalSessionTimeoutMinutes", Value: value.Int(30)},
		{Key: "minWireVersion", Value: value.Int(0)},
		{Key: "maxWireVersion", Value: value.Int(store.WireVersion)},
		{Key: "maxBsonObjectSize", Value: value.Int(16 << 20)},
		{Key: "maxMessageSizeBytes", Value: value.Int(48_000_000)},
		{Key: "maxWriteBatchSize", Value: value.Int(100_000)},
	}
	if m.leader != "" {
		reply = append(reply, value.Field{Key: "primary", Value: value.String(m.leader)})
	}
	if m.leads { // the driver believes the newest of several primaries
		reply = append(reply, value.Field{Key: "electionId", Value: value.Of(objectID(m.term))})
	}
	return append(reply, value.Field{Key: "ok", Value: value.Double(1)}).Close()
}

func (m *member) topologyVersion() bson.RawValue {
	return value.Document{
		{Key: "processId", Value: value.Of(objectID(0))},
		{Key: "counter", Value: value.Long(m.version)},
	}.Close()
}

// objectID is an id that is greater for a greater number.
func objectID(n int64) (id bson.ObjectID) {
	for i := range 8 {
		id[11-i] = byte(n >> (8 * i))
	}
	return id
}
