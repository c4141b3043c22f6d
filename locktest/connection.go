package locktest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/doclock/doclock/internal/wire"
	"github.com/doclock/doclock/locktest/internal/store"
	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// dialer makes the connections of one client in the process.
type dialer struct {
	*Server
	cut  map[*member]bool // the members that the client doesn't reach; needs the mutex
	told string           // why it reaches none, as it has been told; needs the mutex
}

// conn is a connection, as a member sees it.
type conn struct {
	net.Conn         // the member's end
	from     *dialer // nil if it came from elsewhere
	to       *member
	outside  bool          // it comes from another process
	patient  time.Duration // how long the next hello may wait
}

// DialContext connects to a member by its address in this process. With it a Server is the driver's ContextDialer, for a
// client that a program makes by itself: options.Client().ApplyURI(mem.URI()).SetDialer(mem).
func (s *Server) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	return s.dial(ctx, nil, address)
}

// DialContext connects to a member that the client reaches.
func (d *dialer) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	return d.dial(ctx, d, address)
}

// persistence is how long a client tries a connection when it knows that it reaches nobody. It is the driver's pause between
// two tries: so a driver that waits for a server notices at once that it can be reached again.
const persistence = 500 * time.Millisecond

func (s *Server) dial(ctx context.Context, from *dialer, address string) (net.Conn, error) {
	to, err := s.member(address)
	if err != nil {
		return nil, err
	}
	here, there := net.Pipe()
	c := &conn{Conn: there, from: from, to: to}
	tried, end := context.WithTimeout(ctx, persistence)
	defer end()
	s.mu.Lock()
	defer s.mu.Unlock()
	for err = s.accept(c); err != nil && from.knows(err); err = s.accept(c) {
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-tried.Done():
		case <-s.ended:
		}
		s.mu.Lock()
		if tried.Err() != nil || s.over {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return here, nil
}

// knows reports whether a client has been told before why it reaches nobody. What a server says itself it says at once. It
// needs the mutex.
func (d *dialer) knows(why error) bool {
	var refused mongo.ServerError
	if d == nil || errors.As(why, &refused) {
		return false
	}
	defer func() { d.told = why.Error() }()
	return d.told == why.Error()
}

// accept takes a connection and serves it, unless nobody reaches the member. It needs the mutex.
func (s *Server) accept(c *conn) error {
	switch {
	case s.down != nil:
		return s.down
	case s.over || c.from != nil && c.from.cut[c.to]:
		return fmt.Errorf("locktest: this client doesn't reach %s", c.to.name)
	}
	s.conns[c] = true
	if c.from != nil {
		c.from.told = ""
	}
	s.serving.Go(func() { s.serve(c) })
	return nil
}

// Listen makes the server reachable for other processes too, at this host and port (its other members at free ports),
// until Close, and returns its connection string. "127.0.0.1:0" is a free port. Call it once, before clients connect.
func (s *Server) Listen(address string) (uri string, err error) {
	var addresses []string
	for _, m := range s.members {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return "", fmt.Errorf("locktest: listen: %w", err)
		}
		host, _, _ := net.SplitHostPort(address) // Listen has split it
		address = net.JoinHostPort(host, "0")
		s.mu.Lock()
		if s.over {
			s.mu.Unlock()
			return "", errors.Join(errors.New("locktest: listen: the server is closed"), listener.Close())
		}
		m.address = listener.Addr().String()
		s.listeners = append(s.listeners, listener)
		s.serving.Go(func() { s.listen(listener, m) })
		s.mu.Unlock()
		addresses = append(addresses, m.address)
	}
	return s.uri(addresses), nil
}

// listen serves the connections to a member until the listener is closed.
func (s *Server) listen(listener net.Listener, m *member) {
	for {
		there, err := listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		err = s.accept(&conn{Conn: there, to: m, outside: true})
		s.mu.Unlock()
		if err != nil {
			_ = there.Close()
		}
	}
}

// serve answers the commands of a connection, one after the other, until it breaks. A request on its way is executed
// all the same.
func (s *Server) serve(c *conn) {
	defer s.hangUp(c)
	for {
		message, err := wire.Read(c)
		if err != nil {
			return
		}
		command, ok := parse(message)
		if !ok {
			return
		}
		reply := s.answer(c, command)
		switch {
		case value.IsMissing(reply):
			return
		case message.Unanswered():
			continue
		}
		out, err := message.Reply(bson.Raw(reply.Value))
		if err == nil {
			_, err = c.Write(out)
		}
		if err != nil {
			return
		}
	}
}

// hangUp breaks a connection.
func (s *Server) hangUp(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hangUpAll(func(other *conn) bool { return other == c })
}

// hangUpAll breaks connections. It needs the mutex.
func (s *Server) hangUpAll(which func(*conn) bool) {
	for c := range s.conns {
		if which(c) {
			_ = c.Close()
			delete(s.conns, c)
		}
	}
}

// URI is the connection string for clients in this process, whose dialer is the Server.
func (s *Server) URI() string { return s.uri(names[s.topology]) }

func (s *Server) uri(addresses []string) string {
	query := map[topology]string{replicaSet: "?replicaSet=" + setName}[s.topology]
	return "mongodb://" + strings.Join(addresses, ",") + "/" + query
}

// parse reads a command: a document, and lists of documents beside it. ok is false if the message is malformed.
func parse(message wire.Message) (command value.Document, ok bool) {
	body, sequences, ok := message.Parts()
	command = value.Open(value.Doc(body))
	if !ok || len(command) == 0 {
		return nil, false
	}
	for _, s := range sequences {
		list := make([]bson.RawValue, len(s.Documents))
		for i, document := range s.Documents {
			list[i] = value.Doc(document)
		}
		command = append(command, value.Field{Key: s.Name, Value: value.Array(list)})
	}
	return command, true
}

// answer is a member's reply to a command, or none if the connection is to break. It waits until a reply can be given.
func (s *Server) answer(from *conn, command value.Document) bson.RawValue {
	m := from.to
	if name := command[0].Key; strings.EqualFold(name, "hello") || strings.EqualFold(name, "isMaster") {
		return s.hello(from, command)
	}
	met, refusal, delay := s.take(command)
	switch met {
	case refused:
		return s.refuse(m, refusal)
	case requestLost, replyLost:
		if met == replyLost {
			s.ready(m, s.execute(m, command))
		}
		s.wait(m, breaking)
		return value.Missing
	case delayed:
		return s.arrived(m, command, delay)
	}
	return s.kept(m, s.execute(m, command))
}

// changes are the codes by which a member says that its state changes.
var changes = []int64{91, 189, 10058, 10107, 11600, 11602, 13435, 13436}

// refuse is a member's refusal on purpose. One that says that the member's state changes names the state, as MongoDB's
// fail point does: the driver sees that it knows this state, and doesn't look again.
func (s *Server) refuse(m *member, refusal bson.RawValue) bson.RawValue {
	if code, _ := value.Whole(value.Get(refusal, "code")); !slices.Contains(changes, code) {
		return refusal
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(value.Open(refusal), value.Field{Key: "topologyVersion", Value: m.topologyVersion()}).Close()
}

// breaking is how long a connection takes to break: the driver reads again at once, until
// its time is over, and without it no time would pass.
const breaking = time.Millisecond

// wait waits until the member's clock has gone on by d. It returns false at the server's end.
func (s *Server) wait(m *member, d time.Duration) bool {
	s.mu.Lock()
	due := m.now().Add(d)
	s.mu.Unlock()
	for {
		s.mu.Lock()
		rest, changed := due.Sub(m.now()), s.changed
		s.mu.Unlock()
		if rest <= 0 {
			return true
		}
		if !s.pause(changed, rest) {
			return false
		}
	}
}

// hello is what a member says of itself. If the asker knows that already, the member
// waits until it changes.
func (s *Server) hello(from *conn, command value.Document) bson.RawValue {
	known, awaits := value.Whole(value.Get(command.Get("topologyVersion"), "counter"))
	describe := func() (reply bson.RawValue, same bool, changed chan struct{}) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.description(from), from.to.version == known, s.changed
	}
	said, same, changed := describe()
	if !awaits || !same {
		return said
	}
	// A driver that is disconnected just before its hello waits for the answer: so the first ones come soon.
	from.patient = min(max(10*time.Millisecond, 2*from.patient), time.Hour)
	patience := min(limit(command, "maxAwaitTimeMS"), from.patient)
	until := time.Now().Add(patience)
	for rest := patience; same && rest > 0; rest = time.Until(until) {
		if !s.pause(changed, rest) {
			return value.Missing
		}
		said, same, changed = describe()
	}
	return said
}

// description is what a member says of itself, with the addresses that the asker can reach. It needs the mutex.
func (s *Server) description(from *conn) bson.RawValue {
	m := from.to
	leads := m.leads || s.topology != replicaSet
	reply := value.Document{
		{Key: "helloOk", Value: value.True},
		{Key: "isWritablePrimary", Value: value.Bool(leads)},
		{Key: "ismaster", Value: value.Bool(leads)},
		{Key: "topologyVersion", Value: m.topologyVersion()}, // so that the driver's next hello waits for another one
		{Key: "localTime", Value: value.Time(m.now())},
		{Key: "logicalSessionTimeoutMinutes", Value: value.Int(30)},
		{Key: "minWireVersion", Value: value.Int(0)},
		{Key: "maxWireVersion", Value: value.Int(store.WireVersion)},
		{Key: "maxBsonObjectSize", Value: value.Int(16 << 20)},
		{Key: "maxMessageSizeBytes", Value: value.Int(48_000_000)},
		{Key: "maxWriteBatchSize", Value: value.Int(100_000)},
	}
	switch s.topology {
	case sharded:
		reply = append(reply, value.Field{Key: "msg", Value: value.String("isdbgrid")})
	case replicaSet:
		reply = append(reply, s.membership(m, func(m *member) string {
			if from.outside {
				return m.address
			}
			return m.name
		})...)
	}
	return append(reply, value.Field{Key: "ok", Value: value.Double(1)}).Close()
}

// membership is what a member says of its set. It needs the mutex.
func (s *Server) membership(m *member, address func(*member) string) value.Document {
	var hosts []string
	leader := ""
	for _, other := range s.members {
		hosts = append(hosts, address(other))
		if other.name == m.leader {
			leader = address(other)
		}
	}
	set := value.Document{
		{Key: "setName", Value: value.String(setName)},
		{Key: "setVersion", Value: value.Int(1)},
		{Key: "hosts", Value: value.Of(hosts)},
		{Key: "me", Value: value.String(address(m))},
		{Key: "secondary", Value: value.Bool(!m.leads)},
	}
	if leader != "" {
		set = append(set, value.Field{Key: "primary", Value: value.String(leader)})
	}
	if m.leads { // the driver believes the newest of several primaries, whose id is the greatest
		var id bson.ObjectID
		binary.BigEndian.PutUint64(id[4:], uint64(m.term))
		set = append(set, value.Field{Key: "electionId", Value: value.Of(id)})
	}
	return set
}

func (m *member) topologyVersion() bson.RawValue {
	var process bson.ObjectID
	copy(process[:], m.name)
	return value.Document{
		{Key: "processId", Value: value.Of(process)},
		{Key: "counter", Value: value.Long(m.version)},
	}.Close()
}
