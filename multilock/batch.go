package multilock

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Bounds of a batch.
const (
	mostBatched = 500
	mostCrowd   = 4 // a batch chooses among 16 times as many documents as it claims
)

// AcquireBatch claims up to n documents that match the filter and are free, as
// [doclock.SkipLocked] claims one, but by three commands for all: it looks for documents,
// locks them, and reads which it has got. It returns one lease at least. If none is free, it
// waits as Acquire does, or returns [doclock.ErrNotFound] when MaxWait is over.
//
//	batch, err := locks.AcquireBatch(ctx, bson.M{"state": "pending"}, "write", 50, doclock.Into(&jobs))
//
// [doclock.Into] gets a pointer to a slice, of the documents in the order of the leases. One
// that can't be decoded is left out; it is an error if all are. By
// [doclock.Sort] the batch is the first n that are free. But where others take
// documents between its commands, it has fewer, and the next batches choose at random among
// more of the first ones, up to 16 n: else all workers would meet at the same documents.
//
// Each lease is one of its own, and valid a little shorter than an Acquire's. Most have the
// same ID, each in another document; so an update takes no collation, by which two _ids may
// be equal. Work on each under the context of its own [doclock.Lease.KeepAlive], from the
// beginning on, so that the loss of one ends the work on that one alone. [Leases.KeepAlive]
// is for all or nothing. [Leases.Release] releases what is left by one command.
//
// n is at most 500. A Locker with [doclock.Upsert] is refused, and so is
// [doclock.TakeOver]. The errors are those of Acquire.
func (l *Locker) AcquireBatch(ctx context.Context, filter any, tag string, n int, opts ...doclock.AcquireOption) (Leases, error) {
	b, err := l.beginBatch(ctx, filter, tag, n, opts)
	if err != nil {
		return nil, refusal(err)
	}
	leases, err := b.acquire(ctx)
	return leases, refusal(err)
}

// batch is a claim of several documents.
type batch struct {
	*claim
	n     int
	slice reflect.Value // the caller's, or the zero value
	got   []granted     // in the order of the look-up
}

func (l *Locker) beginBatch(ctx context.Context, filter any, tag string, n int, opts []doclock.AcquireOption) (*batch, error) {
	cfg, err := acquireConfig(opts)
	if err != nil {
		return nil, err
	}
	into := reflect.ValueOf(cfg.Into)
	switch {
	case n < 1 || n > mostBatched:
		return nil, fmt.Errorf("%w: a batch of %d; give 1 to %d", doclock.ErrInvalidArgument, n, mostBatched)
	case cfg.TakeOver != nil:
		return nil, fmt.Errorf("%w: a batch takes what is free; give TakeOver to TryAcquire, Acquire or Do", doclock.ErrInvalidArgument)
	case l.engine.Upsert:
		return nil, fmt.Errorf("%w: a batch looks for documents that exist; acquire it by a Locker without Upsert", doclock.ErrInvalidArgument)
	case cfg.Into != nil && into.Elem().Kind() != reflect.Slice:
		return nil, fmt.Errorf("%w: Into got a %T; give a batch a pointer to a slice", doclock.ErrInvalidArgument, cfg.Into)
	}
	c, err := l.begin(ctx, filter, tag, append(slices.Clone(opts), doclock.SkipLocked()))
	if err != nil {
		return nil, err
	}
	b := &batch{claim: &claim{call: c, whole: c.filter}, n: n}
	if cfg.Into != nil {
		b.slice = into.Elem()
	}
	return b, nil
}

// acquire claims the batch. Its caller may leave at one place only, as that of one lease.
func (b *batch) acquire(ctx context.Context) (leases Leases, err error) {
	c := b.call
	c.locker.ops.Enter()
	defer c.locker.ops.Leave()
	defer func() { c.observed.emitBatch(ctx, leases, err) }()
	ctx, cancel := c.bounded(c.observed.count(ctx))
	defer cancel()
	if err := c.nested(); err != nil {
		return nil, err
	}
	claiming, end := c.untilClose(ctx)
	defer end()
	err, gone := attempt.Run(claiming, c.locker.ops, func() error {
		return b.wait(claiming, func() (bool, error) { return b.take(claiming) })
	}, func(error) { b.giveBack(b.got) })
	if err := cmp.Or(gone, err); err != nil {
		return nil, c.failed(claiming, err)
	}
	if err := b.decode(); err != nil {
		return nil, notAcquired(err)
	}
	for _, got := range b.got {
		leases = append(leases, got.lease)
	}
	return leases, nil
}

// decode gives the caller the documents, in his own goroutine. The leases of those that can't be
// decoded are released; it is an error if there are no others.
func (b *batch) decode() (err error) {
	if !b.slice.IsValid() {
		return nil
	}
	all, ended := b.got, false
	docs := reflect.MakeSlice(b.slice.Type(), 0, len(all))
	giveBack := func(some ...granted) { b.locker.ops.Go(func() { b.giveBack(some) }) }
	b.got = nil
	defer func() {
		if !ended { // the caller's code has panicked
			giveBack(append(b.got, all...)...)
		}
	}()
	for len(all) > 0 {
		got, doc := all[0], reflect.New(b.slice.Type().Elem())
		all = all[1:]
		b.into = []any{doc.Interface()}
		if failed := b.call.decode(got.image, func() { giveBack(got) }); failed != nil {
			b.spoiled(got.image, failed)
			err = cmp.Or(err, failed)
			continue
		}
		b.got, docs = append(b.got, got), reflect.Append(docs, doc.Elem())
	}
	ended = true
	if len(b.got) == 0 {
		return err
	}
	b.slice.Set(docs)
	return nil
}

// giveBack releases leases that no caller has got.
func (b *batch) giveBack(all []granted) {
	var leases []*lease.Lease
	for _, got := range all {
		got.lease.Unused()
		leases = append(leases, got.lease)
	}
	for i, err := range lease.ReleaseAll(context.Background(), leases) {
		_ = b.locker.cleanup.released(b.request, leases[i], err)
	}
}

// take claims what is free, until it has got something, or the server has said that none is
// free. If others were faster at all of it, it looks for more, and chooses among them.
func (b *batch) take(ctx context.Context) (got bool, err error) {
	for {
		if b.lost > 0 && !attempt.Sleep(ctx, b.pause()) {
			return false, attempt.Ended(ctx)
		}
		b.call = b.narrow(b.whole)
		found, err := b.look(ctx, b.n<<b.locker.crowd.Load())
		if err != nil || len(found) == 0 {
			b.lost = 0
			return false, err
		}
		chosen := choose(found, b.n)
		refused, err := b.askAll(ctx, chosen)
		if len(b.got) == 0 && err != nil {
			return false, err
		}
		if refused != nil && (len(b.got) == 0 || engine.AsFailure(refused).Unfit != 0) {
			err = b.askBehind(ctx, chosen)
		}
		b.meet(len(chosen))
		switch {
		case ctx.Err() != nil:
			b.giveBack(b.got)
			b.got = nil
			return false, attempt.Ended(ctx)
		case len(b.got) > 0:
			return true, nil
		case err != nil:
			return false, err
		}
	}
}

// choose chooses n of the documents, and keeps their order.
func choose(found []engine.Pin, n int) (chosen []engine.Pin) {
	places := rand.Perm(len(found))[:min(n, len(found))]
	slices.Sort(places)
	for _, i := range places {
		chosen = append(chosen, found[i])
	}
	return chosen
}

// meet notes how many of the documents others have taken between two commands.
func (b *batch) meet(asked int) {
	crowd := b.locker.crowd.Load()
	switch {
	case len(b.got) == 0:
		b.lost++
		b.locker.crowd.Store(min(crowd+2, mostCrowd))
	case 4*len(b.got) < 3*asked:
		b.locker.crowd.Store(min(crowd+1, mostCrowd))
	case len(b.got) == asked && rand.IntN(4) == 0: // others may be slow, and not gone
		b.locker.crowd.Store(max(crowd-1, 0))
	}
}

// askAll claims these documents. What it gets is in the order of the pins. refused is the
// refusal of one of them, which the server doesn't name, or says that the command took too
// long.
func (b *batch) askAll(ctx context.Context, pins []engine.Pin) (refused, err error) {
	sent, done, err := b.locker.slots.take(ctx, b.call, b.locker.ops.Closing())
	if err != nil {
		return nil, err
	}
	defer done()
	r := &round{call: b.call, pins: pins, id: uuid.New()}
	refused, err = r.run(ctx)
	sent()
	for _, a := range r.answers {
		if a.Outcome == engine.Granted {
			b.observed.lookAt(a.Image)
			g := b.locker.engine.Grant(a.Image, b.requestWith(r.id))
			g.Batch = true
			b.got = append(b.got, granted{b.locker.leases.New(g, a.Sent), a.Image, a.Sent.Mono})
		}
	}
	return refused, err
}

// askBehind claims, by its _id, the document that the server has probably refused: it takes
// them in the order of their _ids, and leaves off there. If that is refused again, it is
// passed over.
func (b *batch) askBehind(ctx context.Context, pins []engine.Pin) error {
	pins = slices.SortedFunc(slices.Values(pins), func(x, y engine.Pin) int { return compareValues(bson.E(x[0]), bson.E(y[0])) })
	for _, got := range b.got {
		if i := slices.IndexFunc(pins, func(p engine.Pin) bool { return p.ID().Equal(got.image.ID) }); i >= 0 {
			pins = pins[i+1:]
		}
	}
	if len(pins) == 0 {
		return nil
	}
	b.call = b.narrow(b.whole.At(pins[0]))
	got, refused, err := b.ask(ctx)
	if got.lease != nil {
		b.got = append(b.got, got)
	}
	if refused != nil {
		err = b.pass(pins[0], refused)
	}
	return err
}

// round is one command for several documents. It has an id of its own, and is never sent
// again: a read shows what it has done (rule 26).
type round struct {
	*call
	pins    []engine.Pin
	id      uuid.UUID
	sent    bool
	made    int   // entries, as the command was answered
	unknown error // of the command: it may have made some, or may yet
	refused error // the same, of one that a document is the reason of
	answers []engine.Answer
}

func (r *round) run(ctx context.Context) (refused, err error) {
	if err = r.settleLast(ctx, "acquire", r.send); err != nil {
		if r.sent {
			_ = r.giveUp(false)
		}
		return nil, err
	}
	if r.unknown != nil {
		r.refused = r.giveUp(true)
	} else if r.shown() < r.made {
		r.owe(leftover{seen: true, entries: 1})
	}
	if r.refused != nil {
		r.refused = explain("acquire", r.refused)
	}
	return r.refused, nil
}

// send sends the command, and reads what it has done. After one that was not answered, or
// refused for one document or another, the read proves what is not there.
func (r *round) send(ctx context.Context) (err error) {
	e := r.locker.engine
	if !r.sent {
		sending, cancel, err := r.patient(ctx)
		if err != nil {
			return err
		}
		r.made, r.sent, err = e.ClaimAll(sending, r.filter, r.requestWith(r.id), r.pins)
		cancel()
		if !r.sent || err == nil && r.made == 0 {
			return err
		}
		r.unknown = err
	}
	r.answers, err = e.ClaimedOf(ctx, r.requestWith(r.id), r.pins, r.unknown != nil)
	if err == nil && r.unknown == nil && r.shown() < r.made {
		r.answers, err = e.ClaimedOf(ctx, r.requestWith(r.id), r.pins, true)
	}
	if err != nil || r.unknown == nil || r.shown() > 0 {
		return err
	}
	unknown := r.giveUp(true)
	if engine.AsFailure(unknown).Unfit != 0 || mongo.IsTimeout(unknown) {
		r.refused = unknown
		return nil
	}
	return unknown
}

// shown is how many entries the read has shown.
func (r *round) shown() (n int) {
	for _, a := range r.answers {
		if a.Outcome == engine.Granted {
			n++
		}
	}
	return n
}

// giveUp leaves the id to the clean-up, unless the command has ended and the read is the
// proof, and takes a new one. It returns why the outcome was unknown.
func (r *round) giveUp(proven bool) (unknown error) {
	if !proven || !engine.AsFailure(r.unknown).Nothing {
		r.owe(leftover{entries: 1})
	}
	unknown, r.unknown, r.sent = r.unknown, nil, false
	if r.shown() == 0 {
		r.id = uuid.New()
	}
	return unknown
}

// owe leaves the id to the clean-up, in each document that is not known to have it.
func (r *round) owe(l leftover) {
	for i, pin := range r.pins {
		if r.answers == nil || r.answers[i].Outcome != engine.Granted {
			r.locker.cleanup.add(engine.Filter{Pin: pin}, r.requestWith(r.id), time.Now(), l)
		}
	}
}
