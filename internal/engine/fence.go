package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// The commands of transactions under a lock (rule 28). MongoDB orders the writes of one
// document, also where one of them stands in a transaction. So each transaction of a lease
// writes a fence, a document of its own, and who lets others in settles it: that write waits
// for a transaction that has written the fence, and after it none can.

// fencesName is the collection of the fences, in the database of the locks.
var fencesName = textValue("doclock.fences")

// fenceLife is for how long a fence stays after its last use. No transaction lives that long.
const fenceLife = 24 * time.Hour

// mostSlots is the most fences of a mark.
const mostSlots = 64

// Mark names the fences of a lease's transactions: one for each slot. While an entry has a
// mark, it excludes others also after its expiry, until a command says that the mark is
// settled.
type Mark struct {
	ID    uuid.UUID // Nil is none
	Slots int
}

// Fence is one of a mark's fences.
type Fence struct {
	Mark uuid.UUID
	Slot int
}

func (f Fence) query() bson.Raw {
	id := assemble(48).add("f", idValue(f.Mark)).add("s", long(int64(f.Slot))).end()
	return field("_id", embedded(id))
}

// Names of a fence's fields.
const (
	numberKey  = "n"
	revokedKey = "revoked"
	settlesKey = "w"
	usedKey    = "at"
)

var (
	used   = bson.E{Key: "$currentDate", Value: bson.D{{Key: usedKey, Value: true}}}
	unused = value(bson.D{{Key: "$setOnInsert", Value: bson.D{{Key: numberKey, Value: int64(0)}}}, used})
	revoke = value(bson.D{
		{Key: "$set", Value: bson.D{{Key: revokedKey, Value: true}}},
		{Key: "$inc", Value: bson.D{{Key: settlesKey, Value: 1}}}, // so that it changes the fence in any case
		{Key: "$setOnInsert", Value: bson.D{{Key: numberKey, Value: int64(0)}}},
		used,
	})
)

// SetMark gives the grant's entry another mark. Before is the one that it has, or none. A
// repeat finds the mark that it has set. The outcome is Applied, or Lost. The lock has a
// version from then on that programs without this rule leave alone.
func (e *Engine) SetMark(ctx context.Context, g Grant, before, m Mark) (Answer, error) {
	var had any // null: none
	if before.ID != uuid.Nil {
		had = idValue(before.ID)
	}
	marked := bson.D{{Key: markKey, Value: bson.D{{Key: idKey, Value: idValue(m.ID)}, {Key: slotsKey, Value: m.Slots}}}}
	c := change{
		comment: forMark,
		query:   e.Guard(g, bson.E{Key: markIDKey, Value: bson.D{{Key: "$in", Value: bson.A{had, idValue(m.ID)}}}}),
		update: bson.A{bson.D{{Key: "$set", Value: bson.D{
			{Key: e.Field + "." + versionKey, Value: call("$max", "$"+e.Field+"."+versionKey, version)},
			{Key: e.path(g.Tag), Value: inPlace("$"+e.path(g.Tag), idValue(g.ID), marked)},
		}}}},
	}
	return e.matched(ctx, g.Pin, c, Applied, func(own Entry) bool {
		return g.owns(own) && (own.Mark.ID == before.ID || own.Mark.ID == m.ID)
	})
}

// markAmong is the condition that an entry has no mark, or one of these.
func markAmong(marks ...uuid.UUID) bson.E {
	marks = slices.DeleteFunc(slices.Clone(marks), func(id uuid.UUID) bool { return id == uuid.Nil })
	return bson.E{Key: markIDKey, Value: bson.D{{Key: "$in", Value: append(bson.A{nil}, idValues(marks)...)}}}
}

// MakeFence makes a fence, outside of any transaction, or finds it made. The first one of an
// engine makes the index that removes fences a day after their last use. A server that refuses
// that leaves it to its operator.
func (e *Engine) MakeFence(ctx context.Context, f Fence) error {
	if _, err := e.begin(ctx); err != nil {
		return err
	}
	if !e.indexed.Load() {
		index := bson.D{{Key: "key", Value: bson.D{{Key: usedKey, Value: 1}}}, {Key: "name", Value: usedKey + "_1"}, {Key: "expireAfterSeconds", Value: int64(fenceLife.Seconds())}}
		_, err := e.run(ctx, value(bson.D{{Key: "createIndexes", Value: fencesName}, {Key: "indexes", Value: bson.A{index}}, {Key: "comment", Value: forFence}}).Document())
		e.indexed.Store(err == nil || !AsFailure(err).Passes)
	}
	_, err := e.fences(ctx, forFence, upsertOf(f.query(), unused))
	return err
}

// Settle revokes all fences of a mark, and returns once a majority has that: then every
// transaction that has written one of them is committed or aborted, and none will be committed
// later. It waits at the server for those that are open, until ctx ends: a second at most, or
// the waits of many keep the transaction from its commit.
func (e *Engine) Settle(ctx context.Context, m Mark) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if _, err := e.begin(ctx); err != nil {
		return err
	}
	statements := make([]bson.Raw, max(m.Slots, 1))
	for slot := range statements {
		statements[slot] = upsertOf(Fence{m.ID, slot}.query(), revoke)
	}
	reply, err := e.fences(ctx, forSettle, statements...)
	if err == nil && counted(reply, "n") != int64(len(statements)) {
		err = &Failure{Passes: true, err: fmt.Errorf("a settle of %d fences has written %d", len(statements), counted(reply, "n"))}
	}
	return err
}

// SettleOwn is Settle for one fence, and returns the number of the last transaction that was
// committed with it, or 0.
func (e *Engine) SettleOwn(ctx context.Context, f Fence) (number int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	settled := value(bson.D{{Key: numberKey, Value: 1}})
	fence, _, err := e.send(ctx, change{in: fencesName, comment: forSettle, query: f.query(), update: revoke, upsert: true, new: yes, fields: settled})
	if err != nil {
		return 0, madeMeanwhile(err)
	}
	number, ok := fence.Lookup(numberKey).AsInt64OK()
	if !ok {
		return 0, &Failure{Passes: true, err: fmt.Errorf("a settle's reply has no number: %v", fence)}
	}
	return number, nil
}

// fences sends statements to the collection of the fences.
func (e *Engine) fences(ctx context.Context, comment bson.RawValue, statements ...bson.Raw) (bson.Raw, error) {
	reply, err := e.statements(ctx, fencesName, comment, "update", statements...)
	return reply, madeMeanwhile(err)
}

// madeMeanwhile is the error of an upsert that another one was faster than: it passes.
func madeMeanwhile(err error) error {
	if mongo.IsDuplicateKeyError(err) {
		return &Failure{Passes: true, err: err}
	}
	return err
}

// SameClient says that both engines are of one client, whose sessions are of both. Two clients
// may be of two clusters.
func (e *Engine) SameClient(other *Engine) bool {
	return e.coll.Database().Client() == other.coll.Database().Client()
}

// StartSession starts a session of the client's.
func (e *Engine) StartSession() (session *mongo.Session, err error) {
	return session, e.failed(guard(func() (err error) {
		session, err = e.coll.Database().Client().StartSession()
		return err
	}))
}

// Commit commits the session's transaction. After an error the outcome is unknown, whatever its
// code is.
func (e *Engine) Commit(ctx context.Context, session *mongo.Session) error {
	if _, err := e.begin(ctx); err != nil {
		return err
	}
	return e.failed(guard(func() error { return session.CommitTransaction(ctx) }))
}

// Abort aborts the session's transaction, if it is open. The server aborts one that it isn't
// told of by itself.
func Abort(ctx context.Context, session *mongo.Session) {
	_ = BeginSending(ctx)
	_ = guard(func() error { return session.AbortTransaction(ctx) })
}

// The commands inside of a transaction, whose session ctx carries. They take the read and write
// concern of the transaction.

// FindMarked begins the transaction: it reports whether the grant's entry is there, with the
// mark.
func (e *Engine) FindMarked(ctx context.Context, g Grant, m Mark) (found bool, err error) {
	if _, err := e.begin(ctx); err != nil {
		return false, err
	}
	marked := e.Guard(g, bson.E{Key: markIDKey, Value: idValue(m.ID)})
	docs, err := e.all(ctx, bson.RawValue{}, search{comment: forTransaction, filter: marked, fields: justID})
	return len(docs) > 0, err
}

// WriteFence writes the number of a transaction into its fence, unless that is revoked, or has a
// number as great. It reports whether it has.
func (e *Engine) WriteFence(ctx context.Context, f Fence, number int64) (written bool, err error) {
	if _, err := e.begin(ctx); err != nil {
		return false, err
	}
	query := joined(f.query(), value(bson.D{
		{Key: numberKey, Value: bson.D{{Key: "$lt", Value: number}}},
		{Key: revokedKey, Value: bson.D{{Key: "$ne", Value: true}}},
	}).Document())
	update := bson.D{{Key: "$set", Value: bson.D{{Key: numberKey, Value: number}}}, used}
	reply, err := e.run(ctx, assemble(320).
		add("update", fencesName).
		add("comment", forTransaction).
		add("updates", arrayOfDocuments([]bson.Raw{updateOf(query, update)})).
		end())
	return err == nil && counted(reply, "n") == 1, err
}

// IsTransient reports that a transaction was aborted for a reason that passes, or will be: it may
// be run again, unless its commit was sent.
func IsTransient(err error) bool {
	var labeled mongo.LabeledError
	return errors.As(err, &labeled) && labeled.HasErrorLabel("TransientTransactionError")
}

// Abandoned reads images of documents that match and have an expired entry with a mark, at most
// limit.
func (e *Engine) Abandoned(ctx context.Context, f Filter, limit int) (found []*Image, err error) {
	if _, err := e.begin(ctx); err != nil {
		return nil, err
	}
	d := e.decision("", 0)
	expired := d.when(d.someEntry(nil, call("$lte", "$$e."+expiresKey, d.now), d.marked()), false)
	s := search{comment: forSettle, filter: f.and(bson.D{expired}), fields: e.projection(Request{}), limit: limit}
	docs, err := e.all(ctx, localRead, s)
	for _, doc := range docs {
		if img, err := e.imageOf(doc); err == nil {
			found = append(found, img)
		}
	}
	return found, err
}

// Abandoned are the entries of the image that have expired, and have a mark.
func (img *Image) Abandoned() (entries []Entry) {
	for _, e := range img.Lock.Entries {
		if e.HasMark() && !e.Expires.After(img.Now) {
			entries = append(entries, e)
		}
	}
	return entries
}

// Unsettled are the marks of an image without which the request may be granted, once they are
// settled: of abandoned entries, and of those that it takes over.
func (e *Engine) Unsettled(img *Image, r Request) (marks []Mark) {
	if img == nil {
		return nil
	}
	for _, other := range img.Lock.Entries {
		named := slices.ContainsFunc(r.TakeOver, func(n Entry) bool { return n.ID == other.ID && n.Fence == other.Fence })
		if other.HasMark() && (named || !other.Expires.After(img.Now)) && !slices.Contains(r.Settled, other.Mark.ID) {
			marks = append(marks, other.Mark)
		}
	}
	return marks
}
