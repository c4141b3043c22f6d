package locktest

import (
	"slices"
	"time"

	"github.com/doclock/doclock/locktest/internal/store"
	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// anywhere are the commands that any member answers, and reads those that a
// secondary answers if the driver's read preference allows it.
var (
	anywhere = []string{"ping", "endSessions", "killCursors", "buildInfo", "saslStart", "getParameter"}
	reads    = []string{"find", "aggregate", "count"}
)

// majority is how many members elect a primary.
const majority = 2

// promise is a reply that is not sent before enough members have a point.
type promise struct {
	call    *store.Call
	reply   bson.RawValue
	at      point
	members int  // 0: the reply is sent at once
	waits   bool // the command is to be executed again after the next change: it has no reply yet
	read    bool
	limit   time.Duration // 0: none
	late    *value.Refusal
}

// late is a command on its way to a member.
type late struct {
	due     time.Time // by the member's clock
	to      *member
	command value.Document
	promise // once it has come
}

// arrived is the reply to a command that is on its way for d. One that comes after its time has it executed first, also
// if its sender has gone.
func (s *Server) arrived(m *member, command value.Document, d time.Duration) bson.RawValue {
	s.mu.Lock()
	l := &late{due: m.now().Add(d), to: m, command: command}
	s.late = append(s.late, l)
	s.mu.Unlock()
	if !s.wait(m, d) {
		return value.Missing
	}
	s.mu.Lock()
	s.arrive()
	s.mu.Unlock()
	return s.kept(m, l.promise)
}

// arrive executes the commands whose time has come. It needs the mutex.
func (s *Server) arrive() {
	slices.SortStableFunc(s.late, func(a, b *late) int { return a.due.Compare(b.due) })
	s.late = slices.DeleteFunc(s.late, func(l *late) bool {
		if l.due.After(l.to.now()) {
			return false
		}
		l.promise = s.run(l.to, &store.Call{Command: l.command})
		return true
	})
}

// execute executes a command at a member.
func (s *Server) execute(m *member, command value.Document) promise {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrive()
	return s.run(m, &store.Call{Command: command})
}

// run executes a command, or goes on with one that has waited. It needs the mutex.
func (s *Server) run(m *member, call *store.Call) promise {
	command := call.Command
	p := promise{call: call, read: slices.Contains(reads, command[0].Key)}
	at, err := m, error(nil)
	if s.topology == sharded {
		at = s.stored
		if !inTransaction(command) || slices.Contains(inside, command[0].Key) {
			p.reply = s.route(command)
		}
	}
	call.Now = m.now()
	if call.Began.IsZero() || s.topology == replicaSet && (!call.Waits || command[0].Key == "findAndModify") { // which a member parses again
		call.Began = call.Now
	}
	if s.topology != standalone {
		call.Open = at.open
	}
	s.reap(at)
	switch numbered := !value.IsMissing(command.Get("txnNumber")); {
	case numbered && s.topology == standalone:
		err = &value.Refusal{Code: 20, Name: "IllegalOperation", Message: "Transaction numbers are only allowed on a replica set member or mongos"}
	case numbered && inTransaction(command):
		err = s.transact(m, at, &p)
	case !value.IsMissing(p.reply):
	case slices.Contains(anywhere, command[0].Key):
		p.reply, err = m.anywhere(at, call)
	case s.topology == standalone:
		p.reply = at.latest.store.Execute(call)
	case p.read:
		err = s.read(at, &p)
	default:
		err = s.write(at, &p)
	}
	if err != nil {
		p = promise{call: call, reply: store.Refused(err), at: p.at, members: p.members, limit: p.limit, late: p.late}
	}
	if s.topology == sharded {
		p.members = 0
		if ok, _ := value.Whole(value.Get(p.reply, "ok")); ok == 1 && !p.waits {
			s.forget(command)
		}
	}
	if !p.waits && s.topology != standalone {
		p.reply = at.signed(command, p.reply)
	}
	return p
}

// anywhere executes a command that any member answers.
func (m *member) anywhere(at *member, call *store.Call) (bson.RawValue, error) {
	switch {
	case call.Command[0].Key != "getParameter":
		return at.latest.store.Execute(call), nil
	case value.IsMissing(call.Command.Get(lifetimeLimit)) || m != at:
		return value.Missing, &value.Refusal{Code: 72, Message: "no option found to get"}
	}
	return append(value.Document{{Key: lifetimeLimit, Value: value.Int(int32(at.lifetime / time.Second))}}, succeeded...).Close(), nil
}

// read reads the documents that the command's read concern asks for.
func (s *Server) read(m *member, p *promise) error {
	command := p.call.Command
	concern, err := concernOf(command)
	mode := value.Text(value.Get(command.Get("$readPreference"), "mode"))
	image := m.latest
	switch {
	case err != nil:
		return err
	case concern.level == "linearizable" && !m.leads:
		return errNotPrimary
	case !m.leads && (mode == "" || mode == "primary"):
		return &value.Refusal{Code: 13435, Name: "NotPrimaryNoSecondaryOk", Message: "not primary and secondaryOk=false"}
	case concern.level == "snapshot":
		return value.Unsupported("the read concern snapshot outside of a transaction")
	case concern.level == "majority":
		image = m.committed
	}
	p.limit, p.late = limit(command, "maxTimeMS"), overtime
	if compare(image.at, concern.after) < 0 {
		p.waits = true
		return nil
	}
	p.reply = image.store.Execute(p.call)
	if concern.level == "linearizable" { // an entry that changes nothing shows that a majority still follows
		s.add(m, m.latest.next(m.term))
		p.at, p.members = m.latest.at, majority
	}
	return nil
}

// add makes a point of a primary's history the newest. It needs the mutex.
func (s *Server) add(m *member, next *image) {
	m.latest = next
	s.replicate()
}

// write executes a command that may write, at the primary.
func (s *Server) write(m *member, p *promise) error {
	command := p.call.Command
	concern, err := concernOf(command)
	switch {
	case err != nil:
		return err
	case !m.leads && p.call.Waits:
		return &value.Refusal{Code: 11602, Message: "the command waited, and the primary stepped down"}
	case !m.leads:
		return errNotPrimary
	case concern.level != "" && concern.level != "local":
		return &value.Refusal{Code: 72, Message: command[0].Key + " does not support read concern " + concern.level}
	}
	members, err := p.limits(command)
	if err != nil {
		return err
	}
	session, number := sessionOf(command)
	again := !value.IsMissing(command.Get("txnNumber"))
	if other := m.busy[session]; again && other != nil && other != p.call {
		p.waits = true // the session's command has not ended
		return nil
	}
	if before := m.session(session); again && before != nil {
		switch {
		case number < before.number:
			return errTooOld
		case number == before.number && before.state != written:
			return &value.Refusal{Code: 72, Message: "Must specify autocommit=false on all operations of a multi-statement transaction."}
		case number == before.number && !value.IsMissing(before.reply):
			p.reply, p.at, p.members = before.reply, before.at, members
			return nil
		case number == before.number && m.busy[session] == nil: // the first has waited, and its primary stepped down
			p.call.Progress = before.far.Again()
		}
		s.abort(before)
	}
	next := m.latest.next(m.term)
	if s.topology == replicaSet { // other members have the image, too
		next.store = next.store.Copy()
	}
	p.reply = next.store.Execute(p.call)
	if p.call.Waits {
		p.waits, m.busy[session] = true, p.call
		p.limit, p.late = limit(command, "maxTimeMS"), overtime
	} else {
		s.endWait(m, p.call)
	}
	if !p.call.Changed { // as MongoDB does, it waits for the member's last write
		p.at, p.members = m.latest.at, members
		return nil
	}
	if again {
		next.did(session, first{number: number, reply: p.reply, far: p.call.Progress})
	}
	s.add(m, next)
	p.at, p.members = next.at, members
	return nil
}

// endWait frees the session of a command that waits no longer. It needs the mutex.
func (s *Server) endWait(m *member, call *store.Call) {
	if session, _ := sessionOf(call.Command); m.busy[session] == call {
		delete(m.busy, session)
		s.turn()
	}
}

// keeps reports whether a promise can be kept, or never can, with the reply. Otherwise the channel is closed at the next
// change, or the member's transactions are to be looked at then.
func (s *Server) keeps(m *member, p *promise) (reply bson.RawValue, decided bool, changed chan struct{}, then time.Duration) {
	if p.members == 0 && !p.waits {
		return p.reply, true, nil, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.waits {
		*p = s.run(m, p.call)
	}
	switch {
	case p.waits:
		return value.Missing, false, s.changed, s.holder(m).next()
	case p.members == 0 || s.copies(m, p.at) >= p.members:
		return p.reply, true, nil, 0
	case !m.leads || !m.latest.has(p.at):
		return m.broken(*p, steppedDown), true, nil, 0
	}
	return value.Missing, false, s.changed, 0
}

// kept waits until a promise is decided, and returns the reply. It returns none at the server's end.
func (s *Server) kept(m *member, p promise) bson.RawValue {
	return s.until(m, &p, func() bool { return false })
}

// ready waits until a command is executed that waits for others.
func (s *Server) ready(m *member, p promise) promise {
	s.until(m, &p, func() bool { return !p.waits })
	return p
}

// until waits until a promise is decided, and returns the reply, or until something else holds.
func (s *Server) until(m *member, p *promise, holds func() bool) bson.RawValue {
	began := time.Now()
	for !holds() {
		reply, decided, changed, then := s.keeps(m, p)
		if decided {
			return reply
		}
		if p.limit > 0 && !p.call.Inserts {
			rest := p.limit - time.Since(began)
			if rest <= 0 {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.endWait(s.holder(m), p.call)
				*p = promise{reply: m.broken(*p, p.late)}
				return p.reply
			}
			if then == 0 || rest < then {
				then = rest
			}
		}
		if !s.pause(changed, then) {
			return value.Missing
		}
	}
	return value.Missing
}

// pause waits for a change, or for this time if it is not 0. It returns false at the server's end.
func (s *Server) pause(changed <-chan struct{}, most time.Duration) bool {
	var over <-chan time.Time
	if most > 0 {
		timer := time.NewTimer(most)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-changed:
	case <-over:
	case <-s.ended:
		return false
	}
	return true
}

// broken is the reply if a promise can't be kept: that of a command that waits or reads is not given, that of a write has the
// reason beside it. It needs the mutex.
func (m *member) broken(p promise, why *value.Refusal) bson.RawValue {
	if p.waits || p.read {
		return m.signed(p.call.Command, store.Refused(why))
	}
	reply := append(value.Open(p.reply), value.Field{Key: "writeConcernError", Value: value.Document{
		{Key: "code", Value: value.Int(why.Code)},
		{Key: "codeName", Value: value.String(why.CodeName())},
		{Key: "errmsg", Value: value.String(why.Message)},
	}.Close()})
	return reply.Set("errorLabels", labels(p.call.Command, 0, why.Code)).Close()
}

var (
	overtime      = &value.Refusal{Code: 50, Name: "MaxTimeMSExpired", Message: "operation exceeded time limit"}
	steppedDown   = &value.Refusal{Code: 189, Name: "PrimarySteppedDown", Message: "Primary stepped down while waiting for replication"}
	errNotPrimary = &value.Refusal{Code: 10107, Name: "NotWritablePrimary", Message: "not primary"}
)

// signed is a reply with what a member of a cluster says beside it: its time, what may be repeated after an error, and, if its
// state is the reason, how old its word is. It needs the mutex.
func (m *member) signed(command value.Document, reply bson.RawValue) bson.RawValue {
	signed := value.Open(reply)
	if code, _ := value.Whole(signed.Get("code")); code != 0 {
		signed = signed.Set("errorLabels", labels(command, int32(code), 0))
		if slices.Contains(changes, code) {
			signed = append(signed, value.Field{Key: "topologyVersion", Value: m.topologyVersion()})
		}
	}
	at := bson.Timestamp{T: uint32(m.latest.at.term + 1), I: uint32(m.latest.at.index)}
	return append(signed, value.Field{Key: "operationTime", Value: value.Of(at)}).Close()
}

// labels say what the sender may repeat after an error, or after one of the write concern: a write that has a number, the end of
// a transaction, or the transaction.
func labels(command value.Document, code, concern int32) bson.RawValue {
	ends, inside := ends(command), inTransaction(command)
	moved := slices.Contains(changes, int64(code)) || slices.Contains(changes, int64(concern))
	switch {
	case value.IsMissing(command.Get("txnNumber")):
	case inside && (slices.Contains(transient, code) || code == noTransaction && concern == 0 || moved && !ends):
		return value.Of([]string{"TransientTransactionError"})
	case moved && (ends || !inside):
		return value.Of([]string{"RetryableWriteError"})
	}
	return value.Missing
}

// concern is a command's read concern.
type concern struct {
	level string
	after point
}

func concernOf(command value.Document) (c concern, err error) {
	for key, v := range value.Fields(command.Get("readConcern")) {
		if t, i, ok := v.TimestampOK(); ok && key == "afterClusterTime" {
			c.after = point{int64(t) - 1, int64(i)}
			continue
		}
		if c.level = value.Text(v); key != "level" || !slices.Contains([]string{"local", "available", "majority", "linearizable", "snapshot"}, c.level) {
			return c, value.Unsupported("the read concern %s: %s", key, v)
		}
	}
	return c, nil
}

// limits are how many members are to have a write, and how long that may take.
func (p *promise) limits(command value.Document) (members int, err error) {
	p.limit, p.late = limit(command, "maxTimeMS"), overtime
	if ms, _ := value.Whole(value.Get(command.Get("writeConcern"), "wtimeout")); ms > 0 && (p.limit == 0 || milliseconds(ms) < p.limit) {
		p.limit, p.late = milliseconds(ms), &value.Refusal{Code: 64, Name: "WriteConcernTimeout", Message: "waiting for replication timed out"}
	}
	return membersOf(command.Get("writeConcern"))
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
