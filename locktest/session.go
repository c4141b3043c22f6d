package locktest

import (
	"slices"
	"time"

	"github.com/doclock/doclock/locktest/internal/store"
	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// transaction is the newest of a session, or a write that has a number.
type transaction struct {
	*store.Transaction // nil in a router
	first
	state state
	ends  time.Time // the member aborts it then
	wrote bool      // as a router knows
}

type state uint8

const (
	open state = iota
	aborted
	committed
	written // it is no transaction
)

const (
	noTransaction = 251
	lifetimeLimit = "transactionLifetimeLimitSeconds"
)

// transient are the codes of errors after which a transaction may be run again; inside are the commands that it may have.
var (
	transient = []int32{24, value.WriteConflict, 246}
	inside    = []string{"find", "aggregate", "findAndModify", "insert", "update", "delete", "create", "commitTransaction", "abortTransaction"}
	errTooOld = value.Refuse(225, "the session has begun a later transaction or write")
)

func inTransaction(command value.Document) bool { return !value.IsMissing(command.Get("autocommit")) }

// ends reports whether a command ends a transaction.
func ends(command value.Document) bool {
	return command[0].Key == "commitTransaction" || command[0].Key == "abortTransaction"
}

func sessionOf(command value.Document) (id string, number int64) {
	number, _ = value.Whole(command.Get("txnNumber"))
	return string(value.Get(command.Get("lsid"), "id").Value), number
}

// LimitTransactions has the server abort transactions that are open for longer, a minute by default. As MongoDB does, it looks
// each half of this time (each second, or minute, if that is more, or less): so a transaction may be open for half as long
// again. It is for transactions that begin later.
func (s *Server) LimitTransactions(lifetime time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range append(slices.Clone(s.members), s.stored) {
		if m != nil {
			m.lifetime = lifetime
		}
	}
}

// holder is the member that has the documents which m answers with.
func (s *Server) holder(m *member) *member {
	if s.topology == sharded {
		return s.stored
	}
	return m
}

// session is the newest transaction or write of a session that the member knows, or nil.
func (m *member) session(id string) *transaction {
	t := m.sessions[id]
	if last, known := m.latest.first[id]; known && (t == nil || t.number <= last.number) {
		t = &transaction{first: last, state: written}
		if last.commit {
			t.state = committed
		}
	}
	return t
}

// abort ends a transaction that is open. It needs the mutex.
func (s *Server) abort(t *transaction) {
	if t.state == open {
		t.End()
		t.state = aborted
		s.turn()
	}
}

// reap aborts the transactions that have been open for too long. It needs the mutex.
func (s *Server) reap(m *member) {
	for _, t := range m.sessions {
		if !t.ends.After(m.now()) {
			s.abort(t)
		}
	}
}

// next is when a transaction is to be reaped next; 0 if none is open.
func (m *member) next() (in time.Duration) {
	for _, t := range m.sessions {
		if rest := max(t.ends.Sub(m.now()), 1); t.state == open && (in == 0 || rest < in) {
			in = rest
		}
	}
	return in
}

// begin opens a transaction, at the first of a session's commands.
func (m *member) begin(session string, number int64) {
	period := min(max(m.lifetime/2, time.Second), time.Minute)
	over := m.now().Add(m.lifetime).Sub(m.began)
	m.sessions[session] = &transaction{
		Transaction: m.open.Begin(m.latest.store), first: first{number: number},
		ends: m.began.Add((over + period - 1) / period * period),
	}
}

// transact executes a command of a transaction, which m, a router or the primary, has from its client. It needs the mutex.
func (s *Server) transact(m, at *member, p *promise) error {
	command := p.call.Command
	concern, err := concernOf(command)
	name, refused := command[0].Key, p.reply
	begins := value.Truth(command.Get("startTransaction"))
	session, number := sessionOf(command)
	switch {
	case err != nil:
		return err
	case !slices.Contains(inside, name):
		return value.Refuse(263, "Cannot run '%s' in a multi-document transaction.", name)
	case !at.leads:
		return errNotPrimary
	case concern.level != "" && (!begins || !slices.Contains([]string{"local", "majority", "snapshot"}, concern.level)):
		return value.Refuse(72, "only the first command of a transaction may have a read concern: local, majority or snapshot")
	case !ends(command) && !value.IsMissing(command.Get("writeConcern")):
		return value.Refuse(72, "writeConcern is not allowed within a multi-statement transaction")
	}
	if at != m {
		if err := s.pass(m, at, command); err != nil {
			return err
		}
	}
	t := at.session(session)
	switch {
	case t != nil && number < t.number:
		return errTooOld
	case begins && t != nil && number == t.number:
		return value.Refuse(117, "a transaction or write with this number has begun already")
	case begins:
		if t != nil {
			s.abort(t)
		}
		at.begin(session, number)
		t = at.sessions[session]
	case t == nil, number > t.number, t.state == written:
		return s.unknown(at, p, "the transaction's number matches none that is in progress")
	case t.state == aborted:
		return s.unknown(at, p, "the transaction has been aborted")
	case t.state == committed && name != "commitTransaction":
		return value.Refuse(256, "the transaction has been committed")
	}
	switch name {
	case "commitTransaction":
		return s.commit(at, session, t, p)
	case "abortTransaction":
		s.abort(t)
		p.reply = succeeded.Close()
		return nil
	}
	if value.IsMissing(refused) {
		p.reply = t.Execute(p.call)
	}
	if ok := value.Truth(value.Get(p.reply, "ok")); !ok || !value.IsMissing(value.Get(p.reply, "writeErrors")) {
		s.abort(t)
	}
	if at != m {
		m.sessions[session].wrote = t.Writes()
		p.reply = append(value.Open(p.reply), value.Field{Key: "recoveryToken", Value: m.sessions[session].token()}).Close()
	}
	return nil
}

// commit commits a transaction, or says again that it is committed.
func (s *Server) commit(at *member, session string, t *transaction, p *promise) (err error) {
	if p.members, err = p.limits(p.call.Command); err != nil {
		return err
	}
	p.reply = succeeded.Close()
	if t.state == open {
		next := at.latest.next(at.term) // also of one that has only read: so what it has read is committed
		t.at, t.state = next.at, committed
		if t.Writes() {
			next.store = next.store.Copy()
			t.Commit(next.store)
			next.did(session, first{number: t.number, reply: p.reply, commit: true})
		}
		t.End()
		s.add(at, next)
		s.turn()
	}
	p.at = t.at
	return nil
}

// unknown refuses a command of a transaction that is not there. Its sender must know that it never will be: so an end of a
// transaction waits until a majority has an entry that changes nothing.
func (s *Server) unknown(at *member, p *promise, why string) (err error) {
	if ends(p.call.Command) {
		if p.members, err = p.limits(p.call.Command); err != nil {
			return err
		}
		s.add(at, at.latest.next(at.term))
		p.at = at.latest.at
	}
	return value.Refuse(noTransaction, "%s", why)
}

// pass has a router look whether it knows the transaction of a command. One that doesn't know it commits it by what the
// client has been told of it.
func (s *Server) pass(router, shard *member, command value.Document) error {
	session, number := sessionOf(command)
	t := router.sessions[session]
	begins, known := value.Truth(command.Get("startTransaction")), t != nil && t.number == number
	token := command.Get("recoveryToken")
	switch {
	case t != nil && number < t.number:
		return errTooOld
	case begins && known:
		return value.Refuse(117, "the transaction has begun already")
	case begins:
		router.sessions[session] = &transaction{first: first{number: number}}
	case known:
	case command[0].Key != "commitTransaction":
		return value.Refuse(noTransaction, "this router cannot continue the transaction")
	case value.IsMissing(token):
		return value.Refuse(50940, "Cannot recover the transaction decision without a recoveryToken")
	case len(value.Open(token)) == 0:
		return value.Refuse(noTransaction, "Recovery token is empty, meaning the transaction only performed reads and can be safely retried")
	default:
		if t := shard.sessions[session]; t != nil && t.number == number {
			s.abort(t) // nobody else is to commit it later
		}
	}
	return nil
}

// token is what a router tells its client of a transaction, for another router.
func (t *transaction) token() bson.RawValue {
	token := value.Document{}
	if t.wrote {
		token = value.Document{{Key: "recoveryShardId", Value: value.String("shard")}}
	}
	return token.Close()
}
