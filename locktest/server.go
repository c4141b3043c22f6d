package locktest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/doclock/doclock/locktest/internal/store"
	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Server is a database in memory, made by [New] or [Start]: one server, a replica set of three members, or a sharded
// cluster with two routers. It is safe for concurrent use.
//
// Clients reach it by messages, as they reach any MongoDB: the driver finds the members and the primary, keeps its pools,
// and repeats commands. A network without faults takes no time, and so do replication and elections: what the primary
// writes, all members that it reaches have at once. Nothing changes by itself: a member that is isolated stays what it is
// until [Server.Heal].
type Server struct {
	faults
	t        testing.TB // nil in a program
	topology topology
	members  []*member // what clients reach: servers, or routers
	stored   *member   // what is behind the routers
	serving  sync.WaitGroup
	ended    chan struct{}
	client   func() *mongo.Client

	mu        sync.Mutex
	term      int64         // the newest
	changed   chan struct{} // closed when something changes that commands wait for
	conns     map[*conn]bool
	clients   map[*mongo.Client]*dialer
	listeners []net.Listener
	keys      map[string][]string // the shard keys of collections, by their namespaces
	late      []*late
	down      error // why nobody reaches the server; nil if it can be reached
	over      bool
}

// topology is what a server says that it is.
type topology uint8

const (
	standalone topology = iota
	replicaSet
	sharded
)

const setName = "locktest"

// names are the addresses of each topology's members for clients in the process.
var names = map[topology][]string{
	standalone: {"locktest:27017"},
	replicaSet: {"one.locktest:27017", "two.locktest:27017", "three.locktest:27017"},
	sharded:    {"router.locktest:27017", "other.locktest:27017"},
}

// Option says which kind of server it is. Without one it is a single server.
type Option func(*Server)

// ReplicaSet makes a replica set of three members.
func ReplicaSet() Option { return func(s *Server) { s.topology = replicaSet } }

// Sharded makes a sharded cluster: one shard behind two routers, each with a clock of its own. The command
// shardCollection gives a collection its shard key.
func Sharded() Option { return func(s *Server) { s.topology = sharded } }

// New makes a server without documents for a test. At the test's end it disconnects its clients, and ends. Made in a
// [testing/synctest] bubble it is for this bubble alone, and an hour takes no time.
func New(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s := Start(opts...)
	s.t = t
	t.Cleanup(s.Close)
	return s
}

// Start makes a server without documents for a program, which ends it by Close.
func Start(opts ...Option) *Server {
	s := &Server{
		ended: make(chan struct{}), changed: make(chan struct{}),
		conns: map[*conn]bool{}, clients: map[*mongo.Client]*dialer{}, keys: map[string][]string{},
	}
	s.client = sync.OnceValue(func() *mongo.Client { return s.Connect() })
	for _, o := range opts {
		o(s)
	}
	empty := &image{store: store.New(), terms: []point{{}}, first: map[string]first{}}
	for _, name := range names[s.topology] {
		s.members = append(s.members, newMember(name, empty))
	}
	switch s.topology {
	case standalone:
		s.stored = s.members[0]
	case sharded:
		s.stored = newMember("shard", empty)
		s.stored.leads = true
	default:
		s.elect(nil)
	}
	return s
}

// Close disconnects the clients of [Server.Connect], breaks all connections, and waits until no command is under way.
// Nothing that was stored is kept.
func (s *Server) Close() {
	s.mu.Lock()
	clients := s.clients
	s.clients = nil
	s.mu.Unlock()
	for client := range clients { // first, for a driver's search for a server doesn't notice
		disconnect(client)
	}
	s.mu.Lock()
	if !s.over {
		s.over = true
		close(s.ended)
	}
	for _, listener := range s.listeners {
		_ = listener.Close()
	}
	s.hangUpAll(func(*conn) bool { return true })
	s.mu.Unlock()
	s.serving.Wait()
}

// disconnect ends a client at once. The program may have done so.
func disconnect(client *mongo.Client) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = client.Disconnect(ctx)
}

// Connect makes a client, with options as a program has them: a registry, BSON options, a command monitor, timeouts.
// Those that say where a server is have no effect. The client is disconnected with the server, unless the program has
// done so. A wrong option fails the test; outside of a test it panics.
func (s *Server) Connect(opts ...*options.ClientOptions) *mongo.Client {
	d := &dialer{Server: s, cut: map[*member]bool{}}
	here := options.Client().SetHosts(names[s.topology]).SetDirect(s.topology == standalone).SetLoadBalanced(false).SetDialer(d)
	set := ""
	if s.topology == replicaSet {
		set = setName
	}
	rare := options.Client().SetHeartbeatInterval(time.Hour) // changes come at once; in virtual time days pass
	client, err := mongo.Connect(append(append([]*options.ClientOptions{rare}, opts...), here.SetReplicaSet(set))...)
	if err != nil {
		s.fail(fmt.Errorf("locktest: connect: %w", err))
	}
	s.mu.Lock()
	closed := s.clients == nil
	if !closed {
		s.clients[client] = d
	}
	s.mu.Unlock()
	if closed {
		disconnect(client)
	}
	return client
}

// fail ends the test, or the program.
func (s *Server) fail(err error) {
	if s.t == nil {
		panic(err)
	}
	s.t.Helper()
	s.t.Fatal(err)
}

// Client is the client that all callers of it share, and that has the collections of [Server.Collection].
func (s *Server) Client() *mongo.Client { return s.client() }

// Collection is a collection of the database "test", with these documents in it. Each is what the driver's InsertOne
// takes; one that can't be inserted fails the test. Two Lockers of one collection are as two programs.
func (s *Server) Collection(name string, documents ...any) *mongo.Collection {
	coll := s.Client().Database("test").Collection(name)
	if len(documents) == 0 {
		return coll
	}
	if _, err := coll.InsertMany(context.Background(), documents); err != nil {
		s.fail(fmt.Errorf("locktest: insert the documents: %w", err))
	}
	return coll
}

// Primary is the address of the member that a majority has elected last, and that has not stepped down. It is "" if
// there is none. An isolated member may believe that it is primary, too. Only a replica set has members.
func (s *Server) Primary() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.primary(); p != nil {
		return p.name
	}
	return ""
}

// Secondaries are the addresses of the other members.
func (s *Server) Secondaries() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.members {
		if m != s.primary() {
			all = append(all, m.name)
		}
	}
	return all
}

// primary needs the mutex.
func (s *Server) primary() *member {
	for _, m := range s.members {
		if m.leads && m.term == s.term {
			return m
		}
	}
	return nil
}

// StepDown has the primary step down, and another member become primary, which has all that a majority has. Commands
// that wait at the old primary end with an error that leaves their outcome open.
//
// If the primary is isolated, it doesn't hear of it: it goes on beside the new one, and what it has written alone is lost
// at [Server.Heal]. If no majority of members reach each other, no other one becomes primary before Heal.
func (s *Server) StepDown() {
	s.mustHaveMembers()
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.primary()
	if before != nil && !before.isolated {
		before.learn(before.term, "")
	}
	s.elect(before)
	s.turn()
}

// Isolate cuts members off from all other members. Clients still reach them. An isolated primary goes on: it executes
// writes, but no majority has them, so they are not acknowledged (unless the write concern is w: 1), and wait until
// [Server.Heal]. A command that changes nothing waits for the member's last write: it is answered at once if that is
// committed. An isolated secondary answers reads with what it knows.
func (s *Server) Isolate(members ...string) {
	s.mustHaveMembers()
	s.each(members, func(m *member) { m.isolated = true })
}

func (s *Server) mustHaveMembers() {
	if s.topology != replicaSet {
		s.fail(errors.New("locktest: only a replica set has members; make the server with ReplicaSet()"))
	}
}

// Cut breaks a client's connections to these members, or without any to all, and has it not reach them any more, until
// [Server.Reconnect] or [Server.Heal]. Other clients go on, so another program can get the lock of a holder that is cut
// off. A request on its way arrives all the same, and its sender learns nothing. To have a client see only an old primary,
// cut it off from the others before they elect a new one: a driver that knows the new one doesn't believe the old one.
func (s *Server) Cut(client *mongo.Client, members ...string) {
	if len(members) == 0 {
		members = names[s.topology]
	}
	d := s.dialer(client)
	s.each(members, func(m *member) {
		d.cut[m] = true
		s.hangUpAll(func(conn *conn) bool { return conn.from == d && conn.to == m })
	})
}

// Reconnect ends what [Server.Cut] has begun, for one client.
func (s *Server) Reconnect(client *mongo.Client) {
	d := s.dialer(client)
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(d.cut)
	s.turn()
}

func (s *Server) dialer(client *mongo.Client) *dialer {
	s.mu.Lock()
	d := s.clients[client]
	s.mu.Unlock()
	if d == nil {
		s.fail(errors.New("locktest: the client is not one of this server"))
	}
	return d
}

// Down makes the server unreachable for everybody from now on, for this reason, which the driver tells. Connections
// break. A request on its way arrives all the same.
func (s *Server) Down(reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = reason
	s.hangUpAll(func(*conn) bool { return reason != nil })
	s.turn()
}

// Up ends what [Server.Down] began.
func (s *Server) Up() { s.Down(nil) }

// Heal ends what [Server.Isolate] and [Server.Cut] began. Members that were isolated follow the newest primary. An older
// one steps down, and its writes that the newest doesn't have are lost: it breaks its connections. If no member was
// elected since, its writes reach the others and are acknowledged. If there is no primary, one is elected.
func (s *Server) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.members {
		m.isolated = false
	}
	for _, d := range s.clients {
		clear(d.cut)
	}
	defer s.turn()
	if s.topology != replicaSet {
		return
	}
	if s.primary() == nil {
		s.elect(nil)
	}
	s.replicate()
}

// Now is the server's clock, or that of its first member.
func (s *Server) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.members[0].now()
}

// Advance turns the server's clock ($$NOW) forward by d, or back if d is negative: that of all members, or of those with
// these addresses. The programs' clocks stay, as if the programs had been stopped for d and had not looked at a clock
// since. So a lease whose entry has expired counts as valid until its next command, and nothing is written under it once
// another holder was granted.
//
// To move the programs' timers too (renewals, waiting, the end of a validity), let time pass in a [testing/synctest]
// bubble.
func (s *Server) Advance(d time.Duration, members ...string) {
	if len(members) == 0 {
		members = names[s.topology]
		if s.topology == sharded {
			s.mu.Lock()
			s.stored.ahead += d
			s.mu.Unlock()
		}
	}
	s.each(members, func(m *member) { m.ahead += d })
}

// Lose removes the lease's entry from its document now, as an operator does who breaks a lock, and aborts the server's open
// transactions, of which one may be under the lease. The holder learns it from its next command. Until then its lease counts
// as valid, and others may be granted. It is an error if the entry is not there: the lease has ended, or it is another
// server's.
func (s *Server) Lose(lease Guarded) error {
	s.mu.Lock()
	at := s.stored
	if s.topology == replicaSet {
		at = s.primary()
	}
	if at == nil {
		s.mu.Unlock()
		return errors.New("locktest: there is no primary")
	}
	among := at.latest.store.Collections()
	s.mu.Unlock()
	return lose(lease, among, func(command value.Document) bson.RawValue {
		s.mu.Lock()
		for _, t := range at.sessions {
			s.abort(t)
		}
		s.arrive()
		removed := s.run(at, &store.Call{Command: command})
		s.mu.Unlock()
		return s.ready(at, removed).reply
	})
}

// each does something to members by their addresses.
func (s *Server) each(addresses []string, do func(*member)) {
	for _, address := range addresses {
		m, err := s.member(address)
		if err != nil {
			s.fail(err)
		}
		s.mu.Lock()
		do(m)
		s.turn()
		s.mu.Unlock()
	}
}

// turn wakes the commands that wait. It needs the mutex.
func (s *Server) turn() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Server) member(address string) (*member, error) {
	i := slices.IndexFunc(s.members, func(m *member) bool { return m.name == address })
	if i < 0 {
		return nil, fmt.Errorf("locktest: the server has no member %q, but %q", address, names[s.topology])
	}
	return s.members[i], nil
}
