package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
)

// The comments of commands, by which whoever runs the database recognises them in
// its log, its profiler and its list of operations. A caller's own comment on an
// update takes their place.
var (
	forAcquire     = comment("acquire")
	forConfirm     = comment("confirm")
	forRenew       = comment("renew")
	forUpdate      = comment("update")
	forRelease     = comment("release")
	forHandoff     = comment("handoff")
	forDelete      = comment("delete")
	forDetach      = comment("detach")
	forResume      = comment("resume")
	forTouch       = comment("touch")
	forConvert     = comment("convert")
	forClaim       = comment("claim")
	forMark        = comment("mark") // the next four are rule 28's
	forFence       = comment("fence")
	forSettle      = comment("settle")
	forTransaction = comment("transaction")
	forCleanUp     = comment("clean-up")
	forProof       = comment("proof") // of a negative answer, or of what an attempt has done
	forAdmin       = comment("admin")
)

func comment(command string) bson.RawValue { return value("doclock " + command) }

// The commands that write. One attempt is one message. The driver's own functions for
// writes give each one a transaction number, and send it again if its connection is lost.
// If the second message is refused, the driver returns the refusal, and says nothing of
// the first, which may be executed. RunCommand gives no number. The driver repeats it only
// after an error that proves that nothing was executed: docs/errors.md.

// change is a findAndModify, which changes one document at most. A part that is
// not the library's own is encoded already.
type change struct {
	in      bson.RawValue // the collection's name; none for that of the locks
	query   any
	update  any
	delete  bool // instead of an update
	upsert  bool
	sort    bson.Raw // which of several documents it changes: the first by these keys; nil for any
	filters []bson.Raw
	options assembly      // the elements of a caller's options
	comment bson.RawValue // none where the options have one

	new    bson.RawValue // yes: the image is from after the change; no: from before; none for the _id alone
	fields bson.RawValue // the projection of the image
}

var (
	majority = value(bson.D{{Key: "w", Value: "majority"}})
	justID   = value(bson.D{{Key: "_id", Value: 1}})
	yes, no  = value(true), value(false)
)

// send sends the change once a server can be reached. It returns the image, or
// nil if no document matched, and the clocks from before the send (rule 4).
func (e *Engine) send(ctx context.Context, c change) (img bson.Raw, sent Reading, err error) {
	if sent, err = e.begin(ctx); err != nil {
		return nil, sent, err
	}
	img, err = e.change(ctx, c)
	return img, sent, err
}

// change sends the change, and returns the image, or nil if no document matched.
func (e *Engine) change(ctx context.Context, c change) (bson.Raw, error) {
	reply, err := e.run(ctx, e.findAndModify(c))
	if noCollection(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	switch img := reply.Lookup("value"); img.Type {
	case bson.TypeEmbeddedDocument:
		return img.Document(), nil
	case bson.TypeNull:
		return nil, nil
	default:
		return nil, e.failed(fmt.Errorf("the reply to findAndModify has no image: %v", reply))
	}
}

func (e *Engine) findAndModify(c change) bson.Raw {
	query, action, what := encoded(c.query), "remove", yes
	if !c.delete {
		action, what = "update", encoded(c.update)
	}
	in := c.in
	if in.Type == 0 {
		in = e.name
	}
	command := assemble(288+len(query.Value)+len(what.Value)+len(c.fields.Value)+len(c.options)).add("findAndModify", in)
	if len(c.filters) > 0 {
		command = command.add("arrayFilters", arrayOfDocuments(c.filters))
	}
	if c.comment.Type != 0 {
		command = command.add("comment", c.comment)
	}
	command = append(command, c.options...)
	if c.new.Type == 0 {
		command = command.add("fields", justID)
	} else {
		command = command.add("fields", c.fields).add("new", c.new)
	}
	command = command.add("query", query)
	if c.sort != nil {
		command = command.add("sort", embedded(c.sort))
	}
	command = command.add(action, what)
	if c.upsert {
		command = command.add("upsert", yes)
	}
	return command.add("writeConcern", majority).end()
}

// statements sends several updates or deletes in one command. Each one is
// executed by itself, so the reply may count some beside an error. A message
// has room for thousands: renewals come by the hundred, and releases as many at a
// time as a caller gives.
func (e *Engine) statements(ctx context.Context, in, comment bson.RawValue, command string, statements ...bson.Raw) (reply bson.Raw, err error) {
	all := arrayOfDocuments(statements)
	return e.run(ctx, assemble(160+len(all.Value)).
		add(command, in).
		add("comment", comment).
		add("ordered", no).
		add("writeConcern", majority).
		add(command+"s", all).
		end())
}

// The statements.

func updateOf(query, update any) bson.Raw { return updating(query, update).end() }

func upsertOf(query, update any) bson.Raw { return updating(query, update).add("upsert", yes).end() }

func updating(query, update any) assembly {
	q, u := encoded(query), encoded(update)
	return assemble(len(q.Value)+len(u.Value)+16).add("q", q).add("u", u)
}

// counted is a number of a reply.
func counted(reply bson.Raw, key string) int64 {
	n, _ := reply.Lookup(key).AsInt64OK()
	return n
}

// AnsweredPartly reports that a command of several statements was answered, and
// that the server refused some of them.
func AnsweredPartly(err error) bool {
	var some mongo.WriteException
	return errors.As(err, &some) && len(some.WriteErrors) > 0 && some.WriteConcernError == nil
}

// run sends a command, and returns the server's reply. It may stand beside an
// error.
func (e *Engine) run(ctx context.Context, command bson.Raw) (reply bson.Raw, err error) {
	err = guard(func() (err error) {
		reply, err = e.coll.Database().RunCommand(ctx, command).Raw()
		return err
	})
	if err == nil {
		return reply, nil
	}
	var some mongo.WriteException
	if errors.As(err, &some) {
		reply = some.Raw
	}
	return reply, e.failed(err)
}

// The reads. The driver's own functions send a read again without a pause, for as long as
// its context lasts: a server in trouble gets thousands of them a second. RunCommand sends
// it once, and whoever sends commands again does so with pauses. It tells the server the
// time that the context leaves.

// Read concerns. None that a collection has counts.
var (
	majorityRead     = concern("majority")
	linearizableRead = concern("linearizable")
	localRead        = concern("local")
)

func concern(level string) bson.RawValue { return value(bson.D{{Key: "level", Value: level}}) }

// search is a find.
type search struct {
	comment bson.RawValue
	filter  any
	fields  bson.RawValue
	batch   int32 // the most documents of each answer; 0 means that there is one answer
	limit   int   // the most documents of the only answer; 0 means one
	sort    bson.Raw
}

// find sends a find, and returns its documents, which are read with this concern, or with
// that of the transaction.
func (e *Engine) find(ctx context.Context, level bson.RawValue, s search) (*mongo.Cursor, error) {
	filter := encoded(s.filter)
	command := assemble(160+len(filter.Value)+len(s.fields.Value)).add("find", e.name)
	if s.batch > 0 {
		command = command.add("batchSize", value(s.batch))
	}
	command = command.add("comment", s.comment).add("filter", filter)
	if s.batch == 0 {
		command = command.add("limit", long(int64(max(s.limit, 1))))
	}
	command = command.add("projection", s.fields)
	if s.batch == 0 {
		command = command.add("singleBatch", yes)
	}
	if level.Type != 0 {
		command = command.add("readConcern", level)
	}
	if s.sort != nil {
		command = command.add("sort", embedded(s.sort))
	}
	var found *mongo.Cursor
	err := guard(func() (err error) {
		found, err = e.coll.Database().RunCommandCursor(ctx, command.end())
		return err
	})
	if err != nil {
		return nil, err
	}
	found.SetComment(s.comment)
	found.SetBatchSize(s.batch)
	return found, nil
}

// all sends a find, and reads all documents. It may return some beside an error.
func (e *Engine) all(ctx context.Context, level bson.RawValue, s search) (docs []bson.Raw, err error) {
	found, err := e.find(ctx, level, s)
	if err == nil {
		err = each(ctx, found, func(doc bson.Raw) bool {
			docs = append(docs, slices.Clone(doc))
			return true
		})
	}
	if noCollection(err) {
		return nil, nil
	}
	return docs, e.failed(err)
}

// each calls see with one document after the other, until it returns false. It closes the
// cursor on the server too, also where ctx has ended: the server would keep it for minutes.
func each(ctx context.Context, found *mongo.Cursor, see func(bson.Raw) bool) error {
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = guard(func() error { return found.Close(ctx) })
	}()
	for {
		more := false
		err := guard(func() error {
			more = found.Next(ctx)
			return found.Err()
		})
		if err != nil || !more || !see(found.Current) {
			return err
		}
	}
}

// failed classifies the error of a command. If it could not reach the server, the next
// command first asks the driver for a server. So a command that can't be sent is known
// not to have left.
func (e *Engine) failed(err error) error {
	if err == nil {
		return nil
	}
	left := !notSent(err)
	if !left || mongo.IsNetworkError(err) || mongo.IsTimeout(err) {
		e.reached.Store(false)
	}
	if !left {
		return unsent(err)
	}
	return classify(err)
}

// begin makes sure that a command can be sent, and reads the clocks before the
// send. Every validity is counted from that reading (rule 4).
func (e *Engine) begin(ctx context.Context) (sent Reading, err error) {
	if err = e.reach(ctx); err == nil {
		err = BeginSending(ctx)
	}
	return e.Clocks(), err
}

// Bound is the context of a command that may take this long from when it can be sent: somebody's
// transaction may have locked its document, and the caller has other documents.
func (e *Engine) Bound(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc, error) {
	if err := e.reach(ctx); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	return ctx, cancel, nil
}

// reach waits until the driver knows a server to send to. It returns a Failure
// if there is none when ctx ends, if the servers refuse the client's credentials,
// or if the caller has revoked the command. It sends nothing.
func (e *Engine) reach(ctx context.Context) error {
	for pause := firstLook; !e.reached.Load(); pause = min(2*pause, longLook) {
		err := e.look(1) // it looks again soon
		if err == nil {
			e.reached.Store(true)
			break
		}
		if !err.Passes {
			return err
		}
		if isRevoked(ctx) {
			return certain(ErrRevoked)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
	return nil
}

// Pauses between two checks of the driver's servers.
const (
	firstLook = time.Millisecond
	longLook  = 50 * time.Millisecond
)

// Unreachable returns the reason why no command can be sent at present: a
// server's last error, and then the driver's, with the addresses and the error of
// each. It is nil if no reason is known. It asks the driver: the server that the last command
// reached may be gone.
func (e *Engine) Unreachable() error {
	if f := e.look(draws); f != nil {
		return f
	}
	return nil
}

// look asks the driver whether it knows a server.
func (e *Engine) look(draws int) *Failure {
	// With an ended context the driver neither waits nor sends. If it knows no server, it
	// checks them, or notices the end before that: it draws which.
	ended, cancel := context.WithDeadline(context.Background(), time.Unix(0, 0))
	defer cancel()
	var err error
	for range draws {
		err = guard(func() error { return e.coll.Database().Client().Ping(ended, readpref.Primary()) })
		if unselected(err) == nil {
			return nil
		}
	}
	return unsent(err)
}

// draws is how often one look by itself asks the driver, of which one in two has it check
// its servers.
const draws = 10

// Sending tells a caller that doesn't wait for a command's answer whether the
// command was sent.
type Sending struct {
	state atomic.Int32

	Each func() // is called before each command, repeats included; or nil
}

const (
	waiting int32 = iota
	sent
	revoked
)

type sendingKey struct{}

// ErrRevoked is the error of a command that was not sent, because its caller has
// revoked it.
var ErrRevoked = errors.New("the caller has left before the command was sent")

// WithSending returns a context whose commands record in s that they were sent. A
// nil s forgets an earlier one.
func WithSending(ctx context.Context, s *Sending) context.Context {
	return context.WithValue(ctx, sendingKey{}, s)
}

// BeginSending notes that a command is sent now: all commands call it right
// before. It returns a Failure where the caller has revoked the command.
func BeginSending(ctx context.Context) error {
	s, _ := ctx.Value(sendingKey{}).(*Sending)
	switch {
	case s == nil:
		return nil
	case !s.state.CompareAndSwap(waiting, sent) && s.state.Load() != sent:
		return certain(ErrRevoked)
	case s.Each != nil:
		s.Each()
	}
	return nil
}

// Revoke reports that nothing was sent, and makes sure that nothing will be.
func (s *Sending) Revoke() bool {
	return s.state.CompareAndSwap(waiting, revoked) || s.state.Load() == revoked
}

// Revoke is that of the context's commands.
func Revoke(ctx context.Context) bool {
	s, _ := ctx.Value(sendingKey{}).(*Sending)
	return s != nil && s.Revoke()
}

func isRevoked(ctx context.Context) bool {
	s, _ := ctx.Value(sendingKey{}).(*Sending)
	return s != nil && s.state.Load() == revoked
}

// InTransaction reports whether ctx carries a running transaction. A command on
// ctx would join the transaction, and a detached one could wait for it.
func InTransaction(ctx context.Context) bool {
	session := mongo.SessionFromContext(ctx)
	return session != nil && session.TransactionRunning()
}
