package locktest

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/doclock/doclock/locktest/internal/store"
	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// anywhere are the commands that any member answers, and reads those that a
// secondary answers if the driver's read preference allows it.
var (
	anywhere = []string{"ping", "endSessions", "killCursors", "buildInfo", "saslStart"}
	reads    = []string{"find", "aggregate", "count"}
)

// majority is how many members elect a primary.
const majority = 2

// promise is a reply that is not sent before enough members have a point.
type promise struct {
	reply   bson.RawValue
	at      point
	members int // 0: the reply is sent at once
	read    bool
	again   bool          // the driver may repeat the command
	limit   time.Duration // 0: none
	late    *value.Refusal
}

// late is a command on its way to a member.
type late struct {
	due     time.Time // by the member's clock
	to      *member
	command value.Document
	done    bool
	promise
}

// delay sends a command on its way for d. A command that comes after its time has it executed first.
func (s *Server) delay(m *member, command value.Document, d time.Duration) *late {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &late{due: m.now().Add(d), to: m, command: command}
	s.late = append(s.late, l)
	return l
}

// arrived waits until a command is executed that is on its way for d. It returns false at the server's end.
func (s *Server) arrived(l *late, d time.Duration) bool {
	if !s.wait(l.to, d) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrive()
	return l.done
}

// arrive executes the commands whose time has come. It needs the mutex.
func (s *Server) arrive() {
	slices.SortStableFunc(s.late, func(a, b *late) int { return a.due.Compare(b.due) })
	s.late = slices.DeleteFunc(s.late, func(l *late) bool {
		if l.due.After(l.to.now()) {
			return false
		}
		l.promise, l.done = s.run(l.to, l.command), true
		return true
	})
}

// execute executes a command at a member.
func (s *Server) execute(m *member, command value.Document) promise {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrive()
	return s.run(m, command)
}

// run needs the mutex.
func (s *Server) run(m *member, command value.Document) promise {
	switch s.topology {
	case standalone:
		return promise{reply: m.latest.store.Run(m.now(), command)}
	case sharded:
		return promise{reply: s.route(m.now(), command)}
	}
	name := command[0].Key
	p := promise{read: slices.Contains(reads, name), again: !value.IsMissing(command.Get("txnNumber"))}
	var err error
	switch {
	case slices.Contains(anywhere, name):
		p.reply = m.latest.store.Run(m.now(), command)
	case p.read:
		err = s.read(m, command, &p)
	default:
		err = s.write(m, command, &p)
	}
	if err != nil {
		return promise{reply: m.refused(err, p.again)}
	}
	return p
}

// read reads the documents that the command's read concern asks for.
func (s *Server) read(m *member, command value.Document, p *promise) error {
	level, err := levelOf(command)
	mode := value.Text(value.Get(command.Get("$readPreference"), "mode"))
	image := m.latest
	switch {
	case err != nil:
		return err
	case level == "linearizable" && !m.leads:
		return errNotPrimary
	case !m.leads && (mode == "" || mode == "primary"):
		return &value.Refusal{Code: 13435, Name: "NotPrimaryNoSecondaryOk", Message: "not primary and secondaryOk=false"}
	case level == "majority":
		image = m.committed
	}
	p.reply = image.store.Run(m.now(), plain(command))
	if level == "linearizable" { // an entry that changes nothing shows that a majority still follows
		m.latest = m.latest.next(m.term)
		s.replicate()
		p.at, p.members = m.latest.at, majority
		p.limit, p.late = limit(command, "maxTimeMS"), overtime
	}
	return nil
}

// write executes a command that may write, at the primary.
func (s *Server) write(m *member, command value.Document, p *promise) error {
	level, err := levelOf(command)
	switch {
	case err != nil:
		return err
	case !m.leads:
		return errNotPrimary
	case level != "" && level != "local":
		return &value.Refusal{Code: 72, Message: command[0].Key + " does not support read concern " + level}
	}
	members, err := membersOf(command.Get("writeConcern"))
	if err != nil {
		return err
	}
	p.limit, p.late = limit(command, "maxTimeMS"), overtime
	if ms, _ := value.Whole(value.Get(command.Get("writeConcern"), "wtimeout")); ms > 0 && (p.limit == 0 || milliseconds(ms) < p.limit) {
		p.limit, p.late = milliseconds(ms), &value.Refusal{Code: 64, Name: "WriteConcernTimeout", Message: "waiting for replication timed out"}
	}
	session := string(value.Get(command.Get("lsid"), "id").Value)
	number, _ := value.Whole(command.Get("txnNumber"))
	if before, known := m.latest.first[session]; p.again && known {
		switch {
		case number < before.number:
			return &value.Refusal{Code: 225, Name: "TransactionTooOld", Message: "the session has begun a later write"}
		case number == before.number:
			p.reply, p.at, p.members = before.reply, before.at, members
			return nil
		}
	}
	reply, after := m.latest.store.After(m.now(), plain(command))
	p.reply = reply
	if after == m.latest.store { // nothing has changed: as MongoDB does, it waits for the member's last write
		p.at, p.members = m.latest.at, members
		return nil
	}
	next := m.latest.next(m.term)
	next.store = after
	if p.again {
		next.first = maps.Clone(next.first)
		next.first[session] = first{number, next.at, reply}
	}
	m.latest = next
	s.replicate()
	p.at, p.members = next.at, members
	return nil
}

// keeps reports whether a promise can be kept, or never can, with the reply. Otherwise the channel is closed at the next
// change.
func (s *Server) keeps(m *member, p promise) (reply bson.RawValue, decided bool, changed chan struct{}) {
	if p.members == 0 {
		return p.reply, true, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.copies(m, p.at) >= p.members:
		return p.reply, true, nil
	case !m.leads || !m.latest.has(p.at):
		return m.broken(p, steppedDown), true, nil
	}
	return value.Missing, false, s.changed
}

// kept waits until a promise is decided, and returns the reply. It returns none at the server's end.
func (s *Server) kept(m *member, p promise) bson.RawValue {
	var late <-chan time.Time
	if p.limit > 0 {
		timer := time.NewTimer(p.limit)
		defer timer.Stop()
		late = timer.C
	}
	for {
		reply, decided, changed := s.keeps(m, p)
		if decided {
			return reply
		}
		select {
		case <-changed:
		case <-late:
			s.mu.Lock()
			defer s.mu.Unlock()
			return m.broken(p, p.late)
		case <-s.ended:
			return value.Missing
		}
	}
}

// broken is the reply if a promise can't be kept: that of a read is not given, that
// of a write has the reason beside it. It needs the mutex.
func (m *member) broken(p promise, why *value.Refusal) bson.RawValue {
	if p.read {
		return m.refused(why, false)
	}
	reply := append(value.Open(p.reply), value.Field{Key: "writeConcernError", Value: value.Document{
		{Key: "code", Value: value.Int(why.Code)},
		{Key: "codeName", Value: value.String(why.CodeName())},
		{Key: "errmsg", Value: value.String(why.Message)},
	}.Close()})
	if p.again && why == steppedDown {
		reply = append(reply, value.Field{Key: "errorLabels", Value: value.Of([]string{"RetryableWriteError"})})
	}
	return reply.Close()
}

var (
	overtime      = &value.Refusal{Code: 50, Name: "MaxTimeMSExpired", Message: "operation exceeded time limit"}
	steppedDown   = &value.Refusal{Code: 189, Name: "PrimarySteppedDown", Message: "Primary stepped down while waiting for replication"}
	errNotPrimary = &value.Refusal{Code: 10107, Name: "NotWritablePrimary", Message: "not primary"}
)

// refused is the reply of a member that refuses a command. One that isn't primary
// says how old its word is, and that the driver may repeat a write that has a number.
func (m *member) refused(err error, again bool) bson.RawValue {
	reply := value.Open(store.Refused(err))
	if m.leads {
		return reply.Close()
	}
	if again && errors.Is(err, errNotPrimary) {
		reply = append(reply, value.Field{Key: "errorLabels", Value: value.Of([]string{"RetryableWriteError"})})
	}
	return append(reply, value.Field{Key: "topologyVersion", Value: m.topologyVersion()}).Close()
}

// plain is a command without what is dealt with here.
func plain(command value.Document) value.Document {
	return slices.DeleteFunc(slices.Clone(command), func(f value.Field) bool {
		return slices.Contains([]string{"lsid", "txnNumber", "readConcern", "writeConcern"}, f.Key)
	})
}

// levelOf is the level of a command's read concern.
func levelOf(command value.Document) (string, error) {
	level := ""
	for key, v := range value.Fields(command.Get("readConcern")) {
		if level = value.Text(v); key != "level" || !slices.Contains([]string{"local", "available", "majority", "linearizable"}, level) {
			return "", value.Unsupported("the read concern %s: %s", key, v)
		}
	}
	return level, nil
}

// membersOf are how many members a write concern asks for, a majority by default.
func membersOf(concern bson.RawValue) (int, error) {
	w := value.Get(concern, "w")
	n, whole := value.Whole(w)
	switch {
	case value.IsMissing(w), value.Text(w) == "majority":
		return majority, nil
	case !whole || n < 0 || n > int64(len(names[replicaSet])):
		return 0, value.Unsupported("the write concern %s", concern)
	default:
		return int(n), nil
	}
}

// limit is a time that the command has in a field; 0 is none.
func limit(command value.Document, field string) time.Duration {
	ms, _ := value.Whole(command.Get(field))
	return milliseconds(ms)
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
