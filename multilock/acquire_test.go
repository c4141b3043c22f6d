package multilock_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// The lock becomes free when its holder's time and the tolerance are over. It is
// granted then, not before and not much later.
func TestAcquireWaitsForAnExpiry(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string]relations.Rules{"refused": relations.Exclusive(), "queued": relations.Fair()} {
		virtually(t, name, func(p *place) {
			p.try(p.locker(p.coll, rules, doclock.TTL(time.Minute), doclock.ClockTolerance(10*time.Second)), "write")
			begun := time.Now()
			lease := p.acquire(p.locker(p.coll, rules), "write")
			p.wantEntries(lease)
			if took := time.Since(begun); took < 70*time.Second || took > 71*time.Second {
				p.Errorf("granted after %v", took)
			}
		})
	}
}

// A waiter whose entry was pruned joins the end of the document queue with a new
// entry: an id serves one entry only.
func TestAcquireWhoseEntryWasPrunedStartsAgainUnderANewID(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.locker(p.coll, relations.Fair())
		holder := p.try(l, "write")
		call := acquire(p, p.bounded(), l, "read")
		first := p.waiting("read")
		p.erase("read")
		second := p.waiting("read")
		if first == second {
			p.Error("the pruned entry's id is used again")
		}
		p.release(holder)
		lease := p.granted(call)
		if id := lease.ID(); string(id[:]) != second {
			p.Errorf("the lease's id is %x, the entry's was %x", id, second)
		}
		p.wantEntries(lease)
	})
}

// A refused Acquire asks with the caller's filter: a document that no longer
// matches is not found. It asks for the document that it met first.
func TestAcquirePollsTheDocumentItMetWithTheCallersFilter(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*place){
		"no match": func(p *place) { p.Change(bson.M{"$set": bson.M{"name": "weeds"}}) },
		"deleted":  func(p *place) { p.Delete() },
	} {
		virtually(t, name, func(p *place) {
			p.try(p.locker(p.coll, relations.Exclusive(), doclock.TTL(time.Hour)), "write")
			call := begin(p, func() (doclock.Lease, error) {
				return p.plain(relations.Exclusive()).Acquire(p.Context(), byName, "write")
			})
			time.Sleep(time.Minute)
			_, err := p.coll.InsertOne(p.Context(), bson.M{"_id": 0, "name": "flowers"})
			must(p, err)
			time.Sleep(time.Minute)
			select {
			case <-call.done:
				p.Fatalf("it went over to another document: %v", call.err)
			default:
			}
			leave(p)
			p.want(errOf(call.wait()), doclock.ErrNotFound)
		})
	}
}

// A caller who gives up before an answer of its own is told whom its process knows to be in the way.
func TestAWaitThatRanOutNamesTheHolder(t *testing.T) {
	t.Parallel()
	for name, ask := range asks {
		virtually(t, name, func(p *place) {
			l := p.locker(p.coll, relations.Exclusive())
			holder := p.try(p.locker(p.coll, relations.Exclusive()), "write")
			acquire(p, p.Context(), l, "write", doclock.MaxWait(time.Minute))
			p.queued(l, 1)
			p.mem.Delay(1, time.Second)
			ctx := p.within(time.Millisecond)
			err := errOf(ask(l, ctx, flowers, "write"))
			p.want(err, context.DeadlineExceeded)
			if c := p.conflict(err); len(c.Holders) != 1 || c.Holders[0].ID != holder.ID() {
				p.Errorf("in the way: %+v", c.Holders)
			}
		})
	}
}

// A refusal names the entries in the way: those that the tag respects, held or
// waiting, and no others.
func TestTryAcquireConflictNamesTheHolders(t *testing.T) {
	virtual(t, func(p *place) {
		at := &clock{}
		opts := []doclock.Option{at.drive(), doclock.TTL(10 * time.Second), waitTTL(3 * time.Second), doclock.ClockTolerance(0)}
		ann := p.locker(p.coll, relations.WritePreferring(), append(opts, doclock.Owner("ann"))...)
		bob := p.locker(p.coll, relations.WritePreferring(), append(opts, doclock.Owner("bob"))...)

		reader := p.try(ann, "read")
		since := at.Now()
		at.Pass(time.Second)
		writer := p.enqueue(bob, "write")
		at.Pass(time.Second)
		before := p.Stored()

		_, err := ann.TryAcquire(p.Context(), flowers, "read")
		p.want(err, doclock.ErrConflict)
		got := p.conflict(err)
		want := doclock.Holder{Tag: "write", ID: writer.ID(), Owner: "bob", Since: since.Add(time.Second), Waiting: true, Remaining: 2 * time.Second}
		if diff := cmp.Diff([]doclock.Holder{want}, got.Holders); diff != "" {
			p.Errorf("in the way of the reader (- want, + got):\n%s", diff)
		}
		if got.Tag != "read" || got.Collection != p.coll.Database().Name()+".documents" || got.DocumentID.AsInt64() != 1 || got.RetryAfter != 2*time.Second {
			p.Errorf("the conflict is %+v", got)
		}
		for _, part := range []string{`"read" on document 1 of ` + got.Collection + `: kept back by "write" of "bob"`, "waiting", "2s left"} {
			if !strings.Contains(err.Error(), part) {
				p.Errorf("the error %q doesn't say %q", err, part)
			}
		}

		_, err = bob.TryAcquire(p.Context(), flowers, "write")
		got = p.conflict(err)
		held := doclock.Holder{Tag: "read", ID: reader.ID(), Fence: reader.Fence(), Owner: "ann", Since: since, Remaining: 8 * time.Second}
		if diff := cmp.Diff([]doclock.Holder{held, want}, got.Holders); diff != "" {
			p.Errorf("in the way of the writer (- want, + got):\n%s", diff)
		}
		if got.RetryAfter != 8*time.Second {
			p.Errorf("RetryAfter is %v; the last of those in the way expires in 8s", got.RetryAfter)
		}
		if !strings.Contains(err.Error(), `"read" of "ann" (held, 8s left), "write" of "bob" (waiting, 2s left)`) {
			p.Errorf("the error is %q", err)
		}
		_, err = ann.TryAcquire(p.Context(), flowers, "write")
		held.InProcess = true // the reader is ann's own
		if diff := cmp.Diff([]doclock.Holder{held, want}, p.conflict(err).Holders); diff != "" {
			p.Errorf("in the way of a writer of the reader's own Locker (- want, + got):\n%s", diff)
		}
		if !strings.Contains(err.Error(), `"read" of "ann" (held in this process, 8s left)`) {
			p.Errorf("the error is %q", err)
		}
		_, err = p.locker(p.coll, relations.Exclusive(), opts...).TryAcquire(p.Context(), flowers, "write")
		if c := p.conflict(err); !c.Holders[0].UnknownTag || !strings.Contains(err.Error(), `"read" of "ann" (held, 8s left; these rules don't have its tag)`) {
			p.Errorf("by other rules the error is %q", err)
		}
		if diff := cmp.Diff(before, p.Stored()); diff != "" {
			p.Errorf("the refusals left something behind (- before, + after):\n%s", diff)
		}
	})
}

// RetryAfter of a semaphore is when the first seat becomes free, not the last. Each acquire is
// decided by its own Locker's rules: beside Semaphore(3), one with Semaphore(5) lets in a fourth
// holder.
func TestSemaphores(t *testing.T) {
	virtual(t, func(p *place) {
		at := &clock{}
		opts := []doclock.Option{at.drive(), doclock.TTL(10 * time.Second), doclock.ClockTolerance(0)}
		three, five := p.locker(p.coll, relations.Semaphore(3), opts...), p.locker(p.coll, relations.Semaphore(5), opts...)
		for range 3 {
			p.try(three, "slot")
			at.Pass(time.Second)
		}
		_, err := three.TryAcquire(p.Context(), flowers, "slot")
		if got := p.conflict(err); len(got.Holders) != 3 || got.RetryAfter != 7*time.Second {
			p.Errorf("%d holders, RetryAfter %v; want 3, 7s", len(got.Holders), got.RetryAfter)
		}
		p.try(five, "slot")
		p.try(five, "slot")
		p.conflict(errOf(five.TryAcquire(p.Context(), flowers, "slot")))
	})
}

// namespace stands for the name of the test's collection.
const namespace = "DB.COLL"

// wantNotFound fails unless err says this.
func (p *place) wantNotFound(name string, err error, want string) {
	p.Helper()
	p.want(err, doclock.ErrNotFound, doclock.ErrNotAcquired)
	text := strings.ReplaceAll(err.Error(), p.coll.Database().Name()+"."+p.coll.Name(), namespace)
	if text != want {
		p.Errorf("%s: %s, want\n%s", name, text, want)
	}
}

// An acquire that finds no document says where it has looked and for what, and what
// the caller may have meant.
func TestNotFoundSaysWhatWasLookedFor(t *testing.T) {
	const (
		hex      = "660000000000000000000001"
		upsert   = "; doclock.Upsert() makes a lock that has no other data"
		number   = "; the _id is of type 32-bit integer"
		objectID = "; the _id is a string: should it be an ObjectID?"
		notAmong = "doclock: not acquired: no such document: " + namespace + " has none "
		noneOf   = "doclock: not acquired: no such document: none of " + namespace + " "
	)
	id, err := bson.ObjectIDFromHex(hex)
	must(t, err)
	claim, sharded := doclock.SkipLocked(), doclock.ShardKey("country")
	virtual(t, func(p *place) {
		for name, c := range map[string]struct {
			filter any
			opts   []doclock.AcquireOption
			locker []doclock.Option
			want   string
		}{
			"a string":           {doclock.ID("A-71"), nil, nil, notAmong + `with _id "A-71"` + upsert},
			"a number":           {doclock.ID(7), nil, nil, notAmong + `with _id 7` + number},
			"an ObjectID":        {doclock.ID(id), nil, nil, notAmong + `with _id {"$oid":"` + hex + `"}` + "; the _id is of type objectID"},
			"its digits":         {doclock.ID(hex), nil, nil, notAmong + `with _id "` + hex + `"` + objectID},
			"its digits, and no": {doclock.ID(hex + "0"), nil, nil, notAmong + `with _id "` + hex + `0"` + upsert},
			"more than the _id":  {bson.D{{Key: "_id", Value: 1}, {Key: "state", Value: "new"}}, nil, nil, notAmong + `that matches {"_id":1,"state":"new"}`},
			"digits and more":    {bson.D{{Key: "_id", Value: hex}, {Key: "n", Value: 1}}, nil, nil, notAmong + `that matches {"_id":"` + hex + `","n":1}` + objectID},
			"another filter":     {bson.M{"state": "new"}, nil, nil, notAmong + `that matches {"state":"new"}`},
			"a range":            {bson.M{"_id": bson.M{"$gt": 7}}, nil, nil, notAmong + `that matches {"_id":{"$gt":7}}`},
			"no shard key":       {doclock.ID(hex), nil, []doclock.Option{sharded}, notAmong + `that matches {"_id":"` + hex + `"}` + objectID},
			"a shard key":        {bson.D{{Key: "_id", Value: 1}, {Key: "country", Value: "FR"}}, nil, []doclock.Option{sharded}, notAmong + `with _id 1 and this shard key` + number},
			"a long _id":         {doclock.ID(strings.Repeat("ü", 500)), nil, nil, notAmong + `with _id "` + strings.Repeat("ü", 59) + "…" + upsert},
			"a long filter":      {bson.M{"s": strings.Repeat("x", 500)}, nil, nil, notAmong + `that matches {"s":"` + strings.Repeat("x", 114) + "…"},
			"a claim, no match":  {bson.M{"state": "new"}, []doclock.AcquireOption{claim}, nil, noneOf + `that matches {"state":"new"} is free`},
			"a claim of one":     {doclock.ID(7), []doclock.AcquireOption{claim}, nil, noneOf + `that matches {"_id":7} is free`},
		} {
			_, err := p.plain(relations.Fair(), c.locker...).TryAcquire(p.Context(), c.filter, "write", c.opts...)
			p.wantNotFound(name, err, c.want)
		}
		p.Delete()
		for name, ask := range asks {
			p.wantNotFound(name, errOf(ask(p.plain(relations.Fair()), p.Context(), flowers, "write")), notAmong+"with _id 1"+number)
		}
	})
}

// A foreign lock field is named, and what to do about it.
func TestForeignLocksAreExplained(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.plain(relations.Fair())
		for want, lock := range map[string]any{
			"; the option doclock.Field chooses another field":                                  "mine",
			`written by a newer version of the library: its v is 3, and this one knows up to 2`: bson.M{"v": int32(3)},
			`document 1 was left as it is: the field expires of 00000000-0000-0000-0000-000000000000 of "write" in document 1 is no date`: bson.M{
				"fence": 7, "tags": bson.M{"write": bson.A{bson.M{"fence": 7, "expires": bson.MaxKey{}}}}},
		} {
			p.Change(bson.M{"$set": bson.M{"lock": lock}})
			_, err := l.TryAcquire(p.Context(), flowers, "write")
			p.want(err, doclock.ErrForeignLock)
			if !strings.HasSuffix(err.Error(), want) {
				p.Errorf("%v, want %s at the end", err, want)
			}
		}
	})
}

// A want has named the document already. A claim that meets a held document says that
// none is free.
func TestNotFoundElsewhere(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.plain(relations.Fair())
		_, err := multilock.AcquireAll(p.Context(), l.Want(doclock.ID(1), "write"), l.Want(doclock.ID(7), "write"))
		p.wantNotFound("AcquireAll", err, `doclock: wants[1], "write" on document 7 of `+namespace+`: not acquired: no such document; the _id is of type 32-bit integer`)
		p.wantNotFound("its want", errors.Unwrap(err), "doclock: not acquired: no such document: "+namespace+" has none with _id 7; the _id is of type 32-bit integer")

		p.try(l, "write")
		_, err = l.TryAcquire(p.Context(), bson.M{"_id": bson.M{"$lt": 2}}, "write", doclock.SkipLocked())
		p.wantNotFound("a claim", err, "doclock: not acquired: no such document: none of "+namespace+` that matches {"_id":{"$lt":2}} is free`)
	})
}

// What a command is granted whose caller has left is released, and so is a place that
// it takes.
func TestCancelledDuringTheCommandLeavesNoEntry(t *testing.T) {
	t.Parallel()
	ways := maps.Clone(asks)
	ways["a claim"] = func(l *multilock.Locker, ctx context.Context, _ any, tag string, _ ...doclock.AcquireOption) (doclock.Lease, error) {
		return l.TryAcquire(ctx, byName, tag, doclock.SkipLocked())
	}
	for name, ask := range ways {
		for _, waits := range []bool{false, true} {
			virtually(t, name, func(p *place) {
				coll, net := p.faulty()
				l := p.locker(coll, relations.Fair())
				var others []doclock.Lease
				if waits {
					others = append(others, p.try(p.locker(p.coll, relations.Fair()), "read"))
				}
				slow := p.giveUp(net, func(ctx context.Context) error { return errOf(ask(l, ctx, flowers, "write")) }, doclock.ErrNotAcquired)
				if entered := !waits || name != "TryAcquire" && name != "a claim"; (len(p.entries("write")) == 1) != entered {
					p.Errorf("entered: %v", !entered)
				}
				must(p, slow.Let())
				p.rest(l)
				p.wantEntries(others...)
			})
		}
	}
}

// However a wait ends, the caller is told at once, and who is in the way. Its function has not
// run, and no entry stays behind.
func TestAWaitThatEndsNamesTheHolderAndLeavesNoEntry(t *testing.T) {
	t.Parallel()
	for rule, rules := range map[string]relations.Rules{"refused": relations.Exclusive(), "queued": relations.Fair()} {
		for name, c := range map[string]struct {
			maxWait time.Duration
			end     func(p *place, l locker, w *fixture.Commands, cancel func()) // after ten seconds
			took    time.Duration
			is      error
		}{
			"cancelled between two polls": {time.Hour, func(_ *place, _ locker, _ *fixture.Commands, cancel func()) { cancel() }, 10 * time.Second, context.Canceled},
			"cancelled during a poll": {time.Hour, func(p *place, _ locker, w *fixture.Commands, cancel func()) {
				p.mem.Delay(1, 20*time.Minute)
				n := w.Count()
				p.eventually("it asks again", func() bool { return w.Count() > n })
				cancel()
			}, 0, context.Canceled},
			"its context's time is over": {time.Hour, func(*place, locker, *fixture.Commands, func()) {}, 40 * time.Second, context.DeadlineExceeded},
			"its MaxWait is over":        {20 * time.Second, func(*place, locker, *fixture.Commands, func()) {}, 20 * time.Second, doclock.ErrConflict},
			"Close": {time.Hour, func(p *place, l locker, w *fixture.Commands, _ func()) {
				p.rest(l)
				if n := len(p.entries()); n != 1 {
					p.Errorf("%d entries after Close", n)
				}
				w.Take()
			}, 10 * time.Second, doclock.ErrClosed},
		} {
			virtually(t, rule+", "+name, func(p *place) {
				holder := p.try(p.locker(p.coll, rules, doclock.TTL(time.Hour)), "write")
				coll, w := p.watched()
				l := p.locker(coll, rules)
				ctx, cancel := context.WithTimeout(p.Context(), 40*time.Second)
				defer cancel()
				begun := time.Now()
				call := begin(p, func() (time.Duration, error) {
					err := l.Do(ctx, flowers, "write", func(context.Context, doclock.Lease) error { p.Error("it ran"); return nil }, doclock.MaxWait(c.maxWait))
					return time.Since(begun), err
				})
				time.Sleep(10 * time.Second)
				c.end(p, l, w, cancel)
				took, err := call.wait()
				if sent := w.Take(); c.is == doclock.ErrClosed && len(sent) > 0 {
					p.Errorf("it sent %v after Close", sent)
				}
				if c.took > 0 && took != c.took {
					p.Errorf("it took %v", took)
				}
				p.wantVerdict("Do", err, doclock.ErrNotAcquired)
				p.want(err, c.is)
				if c.is != context.DeadlineExceeded {
					p.wantNot(err, context.DeadlineExceeded)
				}
				if c := p.conflict(err); len(c.Holders) != 1 || c.Holders[0].ID != holder.ID() {
					p.Errorf("in the way: %+v", c.Holders)
				}
				p.rest(l)
				p.wantEntries(holder)
			})
		}
	}
}
