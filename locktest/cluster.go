package locktest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/doclock/doclock/locktest/internal/store"
	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// names are the members' addresses, and majority is how many of them elect a primary.
var names = []string{"one.locktest:27017", "two.locktest:27017", "three.locktest:27017"}

const (
	majority = 2
	setName  = "locktest"
)

// Cluster is a replica set of three members in memory, made by [NewCluster]. It is
// safe for concurrent use.
//
// Clients reach it by messages, as they reach any replica set: the driver finds the
// members and the primary, keeps its pools, and repeats commands. A network without
// faults takes no time, and so do replication and elections: what the primary writes,
// all members that it reaches have at once. Nothing changes by itself: a member that
// is isolated stays what it is until [Cluster.Heal].
//
// The methods of faults (Fail, LoseRequests, LoseReplies, Delay) are those of a
// [Server]. They count the commands of all clients at all members.
type Cluster struct {
	faults
	t       testing.TB
	members []*member
	serving sync.WaitGroup
	ended   chan struct{}
	client  func() *mongo.Client

	mu      sync.Mutex
	term    int64         // the newest
	changed chan struct{} // closed when something changes that commands wait for
	conns   map[*conn]bool
	clients map[*mongo.Client]*dialer
	over    bool
}

// NewCluster makes a replica set without documents. At the end of the test its clients
// are disconnected, and it ends. Make it in the [testing/synctest] bubble that uses
// it: then an hour takes no time. Outside of a bubble it runs in real time.
func NewCluster(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{t: t, ended: make(chan struct{}), changed: make(chan struct{}), conns: map[*conn]bool{}, clients: map[*mongo.Client]*dialer{}}
	c.client = sync.OnceValue(func() *mongo.Client { return c.Connect() })
	empty := &image{store: store.New(), terms: []point{{}}, first: map[string]first{}}
	for _, name := range names {
		c.members = append(c.members, &member{name: name, latest: empty, committed: empty})
	}
	c.elect(nil)
	t.Cleanup(c.end)
	return c
}

// end breaks all connections.
func (c *Cluster) end() {
	c.mu.Lock()
	c.over = true
	close(c.ended)
	c.hangUp(func(*conn) bool { return true })
	c.mu.Unlock()
	c.serving.Wait()
}

// Connect makes a client of the cluster, with options as a program has them. Those
// that say where a server is have no effect. The client is disconnected at the end
// of the test, unless the program has done so.
func (c *Cluster) Connect(opts ...*options.ClientOptions) *mongo.Client {
	c.t.Helper()
	d := &dialer{Cluster: c, cut: map[*member]bool{}}
	here := options.Client().SetHosts(names).SetReplicaSet(setName).SetDirect(false).SetLoadBalanced(false).SetDialer(d)
	client, err := mongo.Connect(append(opts[:len(opts):len(opts)], here)...)
	if err != nil {
		c.t.Fatalf("locktest: connect: %v", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clients[client] = d
	c.t.Cleanup(func() {
		atOnce, cancel := context.WithCancel(context.Background())
		cancel()
		_ = client.Disconnect(atOnce) // the program may have done it
	})
	return client
}

// Client is the client that all callers of it share, and that has the collections of
// [Cluster.Collection].
func (c *Cluster) Client() *mongo.Client { return c.client() }

// Collection is a collection of the database "test", with these documents in it.
// Each is what the driver's InsertOne takes.
func (c *Cluster) Collection(name string, documents ...any) *mongo.Collection {
	c.t.Helper()
	coll := c.Client().Database("test").Collection(name)
	if len(documents) == 0 {
		return coll
	}
	if _, err := coll.InsertMany(context.Background(), documents); err != nil {
		c.t.Fatalf("locktest: insert the documents: %v", err)
	}
	return coll
}

// Primary is the address of the member that a majority has elected last, and that
// has not stepped down. It is "" if there is none. An isolated member may believe
// that it is primary, too.
func (c *Cluster) Primary() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.primary(); p != nil {
		return p.name
	}
	return ""
}

// Secondaries are the addresses of the other members.
func (c *Cluster) Secondaries() (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members {
		if m != c.primary() {
			all = append(all, m.name)
		}
	}
	return all
}

// primary needs the mutex.
func (c *Cluster) primary() *member {
	for _, m := range c.members {
		if m.leads && m.term == c.term {
			return m
		}
	}
	return nil
}

// StepDown has the primary step down, and another member become primary, which has
// all that a majority has. Commands that wait at the old primary end with an error
// that leaves their outcome open.
//
// If the primary is isolated, it doesn't hear of it: it goes on beside the new one,
// and what it has written alone is lost at [Cluster.Heal]. If no majority of members
// reach each other, no other one becomes primary before Heal.
func (c *Cluster) StepDown() {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.primary()
	if before != nil && !before.isolated {
		before.learn(before.term, "")
	}
	c.elect(before)
	c.turn()
}

// Isolate cuts members off from all other members. Clients still reach them. An
// isolated primary goes on: it executes writes, but no majority has them, so they are
// not acknowledged (unless the write concern is w: 1), and wait until [Cluster.Heal].
// A command that changes nothing waits for the member's last write: it is answered at
// once if that is committed. An isolated secondary answers reads with what it knows.
func (c *Cluster) Isolate(members ...string) {
	c.t.Helper()
	c.each(members, func(m *member) { m.isolated = true })
}

// Cut breaks a client's connections to these members, or without any to all, and has
// it not reach them any more. The client is one of this cluster. To have it see only
// an old primary, cut it off from the others before they elect a new one: a driver
// that knows the new one doesn't believe the old one.
func (c *Cluster) Cut(client *mongo.Client, members ...string) {
	c.t.Helper()
	if len(members) == 0 {
		members = names
	}
	c.mu.Lock()
	d := c.clients[client]
	c.mu.Unlock()
	if d == nil {
		c.t.Fatal("locktest: the client is not one of this cluster")
	}
	c.each(members, func(m *member) {
		d.cut[m] = true
		c.hangUp(func(conn *conn) bool { return conn.from == d && conn.to == m })
	})
}

// Heal ends what [Cluster.Isolate] and [Cluster.Cut] began. Members that were
// isolated follow the newest primary. An older one steps down, and its writes that
// the newest doesn't have are lost: it breaks its connections. If no member was
// elected since, its writes reach the others and are acknowledged. If there is no
// primary, one is elected.
func (c *Cluster) Heal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members {
		m.isolated = false
	}
	for _, d := range c.clients {
		clear(d.cut)
	}
	if c.primary() == nil {
		c.elect(nil)
	}
	c.replicate()
	c.turn()
}

// Advance turns the clock of the member with this address ($$NOW) forward, and by
// a negative d back. The other members' clocks and the programs' stay.
func (c *Cluster) Advance(address string, d time.Duration) {
	c.t.Helper()
	c.each([]string{address}, func(m *member) { m.ahead += d })
}

// Lose removes the lease's entry from its document now, as [Server.Lose] does, by a
// write of the primary.
func (c *Cluster) Lose(lease Guarded) error {
	c.mu.Lock()
	primary := c.primary()
	if primary == nil {
		c.mu.Unlock()
		return errors.New("locktest: there is no primary")
	}
	among := primary.latest.store.Collections()
	c.mu.Unlock()
	return lose(lease, among, func(command value.Document) bson.RawValue {
		return c.execute(primary, command).reply
	})
}

// each does something to members by their addresses.
func (c *Cluster) each(addresses []string, do func(*member)) {
	c.t.Helper()
	for _, address := range addresses {
		m, err := c.member(address)
		if err != nil {
			c.t.Fatal(err)
		}
		c.mu.Lock()
		do(m)
		c.turn()
		c.mu.Unlock()
	}
}

// turn wakes the commands that wait. It needs the mutex.
func (c *Cluster) turn() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *Cluster) member(address string) (*member, error) {
	for _, m := range c.members {
		if m.name == address {
			return m, nil
		}
	}
	return nil, fmt.Errorf("locktest: the cluster has no member %q, but %q", address, names)
}
