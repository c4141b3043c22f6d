package multilock_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// wantNested fails unless err is the conflict with a lease of the acquire's own
// context.
func (p *place) wantNested(what string, err error, own ...doclock.Lease) {
	p.Helper()
	var c *doclock.ConflictError
	if !errors.Is(err, doclock.ErrNotAcquired) || !errors.As(err, &c) || !strings.Contains(err.Error(), "held by this context") || len(c.Holders) != len(own) {
		p.Errorf("%s: %v, want a conflict with the own context", what, err)
		return
	}
	for _, h := range c.Holders {
		ours := slices.ContainsFunc(own, func(l doclock.Lease) bool { return h.ID == l.ID() && h.Tag == l.Tag() })
		if !ours || h.Owner == "" || h.Since.IsZero() || !h.InContext || h.Remaining <= 0 {
			p.Errorf("%s: in the way is %+v", what, h)
		}
	}
}

// An acquire of what its own context holds is refused at once, by each call, and
// leaves no entry. So is one by another Locker of the collection.
func TestNestedAcquire(t *testing.T) {
	t.Parallel()
	byRange := bson.M{"_id": bson.M{"$lt": 2}} // a filter that doesn't pin the document
	nested := maps.Clone(asks)
	nested["one try"] = func(l *multilock.Locker, ctx context.Context, filter any, tag string, _ ...doclock.AcquireOption) (doclock.Lease, error) {
		return l.Acquire(ctx, filter, tag, doclock.MaxWait(0))
	}
	nested["DoAll"] = func(l *multilock.Locker, ctx context.Context, _ any, tag string, _ ...doclock.AcquireOption) (doclock.Lease, error) {
		return nil, multilock.DoAll(ctx, func(context.Context, multilock.Leases) error { return nil },
			l.Want(doclock.ID(2), tag), l.Want(doclock.ID(1.0), tag))
	}
	for name, ask := range nested {
		for _, rules := range []relations.Rules{relations.Exclusive(), relations.Fair()} {
			virtually(t, name, func(p *place) {
				coll, w := p.watched()
				mine, other := p.locker(coll, rules), p.plain(rules)
				ok(p, mine.Do(p.Context(), flowers, "write", func(ctx context.Context, lease doclock.Lease) error {
					begun := time.Now()
					for _, l := range []*multilock.Locker{mine, other} {
						w.Take()
						for _, ctx := range []context.Context{ctx, context.WithValue(ctx, &name, 1), context.WithoutCancel(ctx)} {
							p.wantNested("pinned", errOf(ask(l, ctx, flowers, "write")), lease)
						}
						if sent := w.Take(); l == mine && len(sent) > 0 { // a clean-up may come later
							p.Errorf("pinned, %s sent %v", name, sent)
						}
						p.wantNested("another way", errOf(ask(l, ctx, byRange, "write")), lease)
					}
					if took := time.Since(begun); took > time.Second {
						p.Errorf("it took %v", took)
					}
					time.Sleep(10 * time.Second)
					return lease.UpdateAndRelease(ctx, plusOne) // nobody is in its queue
				}))
				p.wantEntries()
			})
		}
	}
}

// What does not keep an acquire back for ever is not refused: another document,
// another tag, a place of a semaphore, and another server's document of that name.
func TestNotNested(t *testing.T) {
	virtual(t, func(p *place) {
		for _, opts := range [][]doclock.Option{nil, {doclock.ShareInProcess("read")}} {
			readers := p.plain(relations.WritePreferring(), opts...)
			ok(p, readers.Do(p.Context(), flowers, "read", func(ctx context.Context, lease doclock.Lease) error {
				p.release(p.got(readers.Acquire(ctx, flowers, "read")))
				p.release(p.got(readers.Acquire(ctx, doclock.ID(2), "write")))
				_, err := readers.Acquire(ctx, flowers, "write")
				p.wantNested("write under read", err, lease)
				return nil
			}))
		}
		slots := p.plain(relations.Semaphore(2), doclock.Field("slots"))
		ok(p, slots.Do(p.Context(), flowers, "slot", func(ctx context.Context, first doclock.Lease) error {
			return slots.Do(ctx, flowers, "slot", func(ctx context.Context, second doclock.Lease) error {
				_, err := slots.Acquire(first.KeepAlive(ctx), flowers, "slot") // which has one of them twice
				p.wantNested("a third place", err, first, second)
				return nil
			})
		}))
		ok(p, slots.Do(p.Context(), flowers, "slot", func(ctx context.Context, _ doclock.Lease) error {
			other := p.got(slots.Acquire(p.Context(), flowers, "slot"))
			time.AfterFunc(time.Second, func() { _ = other.Release(context.Background()) })
			p.release(p.got(slots.Acquire(ctx, flowers, "slot"))) // the other's place becomes free
			return nil
		}))
		elsewhere := locktest.New(p).Connect().Database(p.coll.Database().Name()).Collection(p.coll.Name())
		_, err := elsewhere.InsertOne(p.Context(), flowers)
		must(p, err)
		here, there := p.plain(relations.Exclusive()), p.locker(elsewhere, relations.Exclusive())
		ok(p, here.Do(p.Context(), flowers, "write", func(ctx context.Context, _ doclock.Lease) error {
			p.release(p.got(there.TryAcquire(ctx, flowers, "write")))
			return nil
		}))
	})
}

// A lease that has ended meanwhile keeps its context back no longer. Neither does one that its caller has left to others,
// who share it: he waits for them like anybody.
func TestNotNestedAfterTheEnd(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(context.Context, doclock.Lease) error{
		"returned": func(context.Context, doclock.Lease) error { return nil },
		"released": func(ctx context.Context, lease doclock.Lease) error { return lease.Release(ctx) },
		"converted": func(ctx context.Context, lease doclock.Lease) error {
			_, err := lease.Convert(ctx, "read")
			return err
		},
		"detached": func(ctx context.Context, lease doclock.Lease) error { _, err := lease.Detach(ctx); return err },
	} {
		for tag, opts := range map[string][]doclock.Option{"write": nil, "read": {doclock.ShareInProcess("read")}} {
			if opts != nil && (name == "converted" || name == "detached") { // a lease of several refuses that
				continue
			}
			virtually(t, name+", "+tag, func(p *place) {
				l := p.plain(relations.WritePreferring(), opts...)
				got := make(chan error, 1)
				var other doclock.Lease
				ok(p, l.Do(p.Context(), flowers, tag, func(ctx context.Context, lease doclock.Lease) error {
					if opts != nil {
						other = p.acquire(l, tag)
						if other.ID() != lease.ID() {
							p.Error("they don't share")
						}
					}
					err := end(ctx, lease)
					inherited := context.WithoutCancel(ctx)
					go func() {
						if name == "returned" {
							<-ctx.Done()
						}
						held, err := l.Acquire(inherited, flowers, "write")
						if err == nil {
							err = held.Release(inherited)
						}
						got <- err
					}()
					synctest.Wait()
					return err
				}))
				time.Sleep(time.Second)
				if other != nil {
					p.release(other)
				}
				ok(p, <-got)
			})
		}
	}
}

// A claim passes over a document that its context holds.
func TestNestedClaim(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.plain(relations.Exclusive())
		claim := func(ctx context.Context) (doclock.Lease, error) {
			return l.TryAcquire(ctx, bson.M{"_id": bson.M{"$gt": 0}}, "write", doclock.SkipLocked(), doclock.Sort(bson.D{{Key: "_id", Value: 1}}))
		}
		ok(p, l.Do(p.Context(), flowers, "write", func(ctx context.Context, _ doclock.Lease) error {
			held := p.got(claim(ctx))
			if held.DocumentID().AsInt64() != 2 {
				p.Errorf("claimed %v", held.DocumentID())
			}
			p.want(errOf(claim(held.KeepAlive(ctx))), doclock.ErrNotFound)
			return held.Release(ctx)
		}))
	})
}

// A nested acquire behind a waiter that waits for its context is refused at once, by
// each call, and leaves no entry: a reader that reads again while a writer waits.
func TestNestedBehindAWaiter(t *testing.T) {
	t.Parallel()
	for name, ask := range asks {
		for _, rules := range []relations.Rules{relations.WritePreferring(), relations.Fair()} {
			for _, opts := range [][]doclock.Option{nil, {doclock.ShareInProcess("read")}} {
				virtually(t, name, func(p *place) {
					reader, other := p.plain(rules, opts...), p.plain(rules)
					for _, writer := range []*multilock.Locker{reader, other} {
						wrote := make(chan error, 1)
						ok(p, reader.Do(p.Context(), flowers, "read", func(ctx context.Context, lease doclock.Lease) error {
							go func() {
								wrote <- writer.Do(context.WithoutCancel(p.Context()), flowers, "write", func(context.Context, doclock.Lease) error { return nil })
							}()
							time.Sleep(time.Second)
							ctx, cancel := context.WithTimeout(ctx, time.Hour)
							defer cancel()
							begun := time.Now()
							for _, filter := range []any{flowers, byName} {
								p.wantBehind(errOf(ask(reader, ctx, filter, "read")), "write")
							}
							if took := time.Since(begun); took > 0 {
								p.Errorf("it took %v", took)
							}
							time.Sleep(time.Second)
							if n := len(p.entries()); n != 2 {
								p.Errorf("%d entries, and not the reader's and the writer's", n)
							}
							return nil
						}))
						ok(p, <-wrote)
					}
				})
			}
		}
	}
}

// wantBehind fails unless err is the conflict with waiters that wait for the acquire's
// own context, the first of them of the tag.
func (p *place) wantBehind(err error, tag string) {
	p.Helper()
	var c *doclock.ConflictError
	if !errors.Is(err, doclock.ErrNotAcquired) || !errors.As(err, &c) || len(c.Holders) == 0 || !strings.Contains(err.Error(), "waiting for this context") {
		p.Errorf("%v, want a conflict with waiters that wait for the own context", err)
		return
	}
	for _, h := range c.Holders {
		if !h.Waiting || !h.InContext || c.Holders[0].Tag != tag {
			p.Errorf("in the way is %+v", h)
		}
	}
}

// circular are rules in which "b" waits for "a", and "c" and "d" for "b": "c" in the
// document, and "d" outside of it.
var circular = relations.Rules{
	"a": {},
	"b": {"a": {Kind: relations.Assertive}},
	"c": {"b": {Kind: relations.Assertive}, "c": {Kind: relations.Assertive}},
	"d": {"b": {Kind: relations.Cooperative}, "d": {Kind: relations.Cooperative}},
}

// A nested acquire asks, though others of its process are before it, and learns that it
// waits for itself, though that comes true while it waits. Its entry is removed.
func TestNestedBehindItsProcess(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"c": false, "d": true, "d, behind a lease of its process": true} {
		virtually(t, name, func(p *place) {
			tag, l, other := name[:1], p.plain(circular, doclock.TTL(time.Minute)), p.plain(circular)
			holder := other
			if name != tag {
				holder = l
			}
			first := p.got(holder.Acquire(p.Context(), flowers, tag))
			first.KeepAlive(p.Context())
			var b, second, nested *pending[doclock.Lease]
			ok(p, l.Do(p.Context(), flowers, "a", func(ctx context.Context, _ doclock.Lease) error {
				if !late {
					b = acquire(p, p.Context(), other, "b")
					time.Sleep(time.Second)
				}
				second = acquire(p, p.Context(), l, tag) // the first of the tag in its process
				time.Sleep(time.Second)
				nested = acquire(p, ctx, l, tag)
				if late {
					time.Sleep(10 * time.Second)
					b = acquire(p, p.Context(), other, "b")
				}
				time.Sleep(2 * time.Second)
				select {
				case <-nested.done:
					p.wantBehind(nested.err, "b")
				default:
					p.Error("it waits for itself")
				}
				if n := len(p.entries("c", "d")); n != 1 && late || n != 2 && !late {
					p.Errorf("%d entries of %q", n, tag)
				}
				return nil
			}))
			p.release(p.granted(b))
			p.release(first)
			p.release(p.granted(second))
			if nested.err == nil {
				p.release(p.granted(nested))
			}
		})
	}
}

// A Wait for a ticket inside of what the ticket waits for is refused, also if the ticket
// is from outside. The ticket keeps its place.
func TestNestedWait(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.plain(circular)
		var ticket *multilock.Ticket
		ok(p, l.Do(p.Context(), flowers, "a", func(ctx context.Context, lease doclock.Lease) error {
			b, err := l.Enqueue(p.Context(), flowers, "b")
			must(p, err)
			ticket, err = l.Enqueue(p.Context(), flowers, "c")
			must(p, err)
			_, err = b.Wait(ctx)
			p.wantNested("b", err, lease)
			_, err = ticket.Wait(ctx)
			p.wantBehind(err, "b")
			return b.Cancel(ctx)
		}))
		p.release(p.got(ticket.Wait(p.Context())))
	})
}
