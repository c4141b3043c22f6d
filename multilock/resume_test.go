package multilock_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// detach detaches a lease and returns the token.
func (p *place) detach(lease doclock.Lease) string {
	p.Helper()
	token, err := lease.Detach(p.bounded())
	if err != nil {
		p.Fatalf("Detach: %v", err)
	}
	return token
}

// A reader of the document can't make the token: the document has only a hash of the secret.
func TestTheDocumentHasNoToken(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.plain(relations.Exclusive())
		token := p.detach(p.try(l, "write"))
		for range 2 {
			text, err := base64.RawURLEncoding.DecodeString(token)
			must(p, err)
			if entries := p.entries("write"); len(entries) != 1 || len(entries[0].Key.Data) != 16 || bytes.Contains(text, entries[0].Key.Data) {
				p.Errorf("the token is %x, the entry %+v", text, entries)
			}
			if again := p.detach(p.resume(l, token)); again != token {
				p.Errorf("the token %s became %s", token, again)
			}
		}
	})
}

// resume makes a lease by the token.
func (p *place) resume(l *multilock.Locker, token string, opts ...doclock.AcquireOption) doclock.Lease {
	p.Helper()
	lease, err := l.Resume(p.bounded(), flowers, token, opts...)
	if err != nil {
		p.Fatalf("Resume: %v", err)
	}
	return lease
}

// What names no document or no entry, and all tokens after Close, are refused before
// anything is sent. internal/engine has the texts that are no tokens.
func TestTokensAreRefused(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	l := p.locker(coll, relations.Exclusive())
	token := p.detach(p.try(l, "write"))
	closed := p.locker(coll, relations.Exclusive())
	p.rest(closed)
	for name, c := range map[string]struct {
		l      *multilock.Locker
		filter any
		token  string
		is     error
	}{
		"empty":         {l, flowers, "", doclock.ErrInvalidArgument},
		"cut off":       {l, flowers, token[1:], doclock.ErrInvalidArgument},
		"another tag":   {p.locker(coll, relations.Semaphore(1)), flowers, token, doclock.ErrInvalidArgument},
		"no filter":     {l, nil, token, doclock.ErrInvalidArgument},
		"no _id":        {l, bson.M{"total": 1}, token, doclock.ErrInvalidArgument},
		"no shard key":  {p.locker(coll, relations.Exclusive(), doclock.ShardKey("region")), flowers, token, doclock.ErrInvalidArgument},
		"several":       {l, bson.M{"_id": bson.M{"$gt": 0}}, token, doclock.ErrInvalidArgument},
		"a map":         {l, bson.M{"_id": bson.M{"a": 1, "b": 2}}, token, doclock.ErrInvalidArgument},
		"after a Close": {closed, flowers, token, doclock.ErrClosed},
	} {
		p.sends(w, 0, name, func() error { return errOf(c.l.Resume(t.Context(), c.filter, c.token)) }, c.is, doclock.ErrNotAcquired)
		p.sends(w, 0, name, func() error { return c.l.Touch(t.Context(), c.filter, c.token) }, c.is)
	}
}

// A token says nothing of the document: whoever shows it does. Another document, or one
// in another state, is an ErrNotFound, and the token stays good. Only a document that
// lacks the entry says that the token is lost.
func TestATokenIsGoodForItsDocument(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.plain(relations.Exclusive())
		_, err := p.coll.InsertOne(p.Context(), bson.M{"_id": "other"})
		must(p, err)
		token := p.detach(p.try(l, "write"))
		for name, c := range map[string]struct {
			filter any
			want   error
		}{
			"the state has changed": {bson.M{"_id": 1, "total": 99}, doclock.ErrNotFound},
			"no document":           {bson.M{"_id": "none"}, doclock.ErrNotFound},
			"another document":      {bson.M{"_id": "other"}, doclock.ErrLost},
		} {
			_, err := l.Resume(p.Context(), c.filter, token)
			fault{c.want, nil}.check(p, name, err)
			p.want(err, doclock.ErrNotAcquired)
			fault{c.want, nil}.check(p, name, l.Touch(p.Context(), c.filter, token))
			if strings.Contains(err.Error(), "Upsert") {
				p.Errorf("%s: %v", name, err)
			}
		}
		over, cancel := context.WithCancel(p.Context())
		cancel()
		p.want(errOf(l.Resume(over, flowers, token)), context.Canceled, doclock.ErrNotAcquired)
		p.want(l.Touch(over, flowers, token), context.Canceled)
		if e := p.entries("write"); len(e) != 1 || !e[0].Detached {
			p.Errorf("the entry is %+v", e)
		}
		lease, err := l.Resume(p.Context(), bson.M{"_id": 1, "total": 1}, token)
		must(p, err)
		p.release(lease)
	})
}

// Rule 23. The first attempt was executed, its reply is lost, and then the document
// changes. The repeat finds its own entry all the same. Without it the caller is told
// that there is no such document, and the lock is held by nobody.
func TestRule23ARepeatedResumeFindsItself(t *testing.T) {
	virtual(t, func(p *place) {
		coll, net := p.faulty()
		l := p.locker(coll, relations.Exclusive())
		token := p.detach(p.try(l, "write"))
		fault := net.Arm(faultnet.LoseReply, "findAndModify")
		resumed := begin(p, func() (doclock.Lease, error) {
			return l.Resume(p.bounded(), bson.M{"_id": 1, "total": 1}, token)
		})
		wait(p, fault.Fired())
		_, err := p.coll.UpdateOne(p.Context(), flowers, bson.M{"$set": bson.M{"total": 2}})
		must(p, err)
		lease, err := resumed.wait()
		must(p, err)
		p.wantEntries(lease)
		p.release(lease)
	})
}

// The text of a token has no TTL: the Locker that resumes it says how long others are kept out.
func TestATokenHasNoTTL(t *testing.T) {
	virtual(t, func(p *place) {
		short, long := p.plain(relations.Exclusive(), doclock.TTL(2*time.Second)), p.plain(relations.Exclusive(), doclock.TTL(time.Minute))
		token := p.detach(p.try(short, "write", doclock.TTL(3*time.Second)))
		for _, c := range []struct {
			locker *multilock.Locker
			opts   []doclock.AcquireOption
			want   time.Duration
		}{
			{short, nil, 3 * time.Second}, // an expiry never moves back
			{short, []doclock.AcquireOption{doclock.TTL(4 * time.Second)}, 4 * time.Second},
			{long, nil, time.Minute},
		} {
			must(p, c.locker.Touch(p.Context(), flowers, token, c.opts...))
			if left := time.Until(p.entries("write")[0].Expires) - engine.DefaultTolerance; left != c.want {
				p.Errorf("%v left, want %v", left, c.want)
			}
		}
		for name, option := range map[string]doclock.AcquireOption{"Into": doclock.Into(&bson.M{}), "Owner": doclock.Owner("eve"), "MaxWait": doclock.MaxWait(0)} {
			invalid("TTL").check(p, name, short.Touch(p.Context(), flowers, token, option))
		}
		p.release(p.resume(short, token))
	})
}

// If the document can't be decoded, or its decoding panics, the entry stays for the next
// resume.
func TestResumeIntoWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Exclusive())
	token := p.detach(p.try(l, "write"))
	for _, into := range []doclock.AcquireOption{doclock.Into(&unreadable{}), doclock.Into(&panicking{})} {
		_ = recovered(func() {
			p.want(errOf(l.Resume(t.Context(), flowers, token, into)), doclock.ErrNotAcquired)
		})
		if e := p.entries("write"); len(e) != 1 || !e[0].Detached {
			t.Errorf("the entry is %+v", e)
		}
	}
	p.release(p.resume(l, token))
	p.wantEntries() // no remainder for a lease that nobody got
}

// A resume doesn't wait, and gives what was acquired, and the document.
func TestOptionsOfResume(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.locker(p.coll, relations.Exclusive(), doclock.Owner("the process"))
		token := p.detach(p.try(l, "write", doclock.TTL(time.Minute), doclock.Owner("ada")))
		for name, option := range map[string]doclock.AcquireOption{
			"MaxWait": doclock.MaxWait(0), "HoldAtLeast": doclock.HoldAtLeast(time.Second), "nil": nil, "Into nothing": doclock.Into(nil),
		} {
			if _, err := l.Resume(p.Context(), flowers, token, option); !errors.Is(err, doclock.ErrInvalidArgument) {
				p.Errorf("%s: %v", name, err)
			}
		}
		var doc bson.M
		lease := p.resume(l, token, doclock.Into(&doc))
		p.wantDocument("Into", doc, whole)
		if left := lease.Remaining(); left > 40*time.Second {
			p.Errorf("%v left of the TTL of the Locker", left)
		}
		if e := p.entries("write")[0]; e.Owner != "ada" {
			p.Errorf("the owner is %q", e.Owner)
		}
		lease = p.resume(l, p.detach(lease), doclock.TTL(2*time.Minute), doclock.Owner("ann"))
		if left := lease.Remaining(); left < 110*time.Second {
			p.Errorf("%v left of the TTL of the resume", left)
		}
		if e := p.entries("write")[0]; e.Owner != "ann" {
			p.Errorf("the owner is %q", e.Owner)
		}
		p.release(lease)
	})
}

// After a detach the waiters of the process go on polling: the entry is still there.
func TestADetachWakesNobody(t *testing.T) {
	virtual(t, func(p *place) {
		coll, w := p.watched()
		l := p.locker(coll, relations.Exclusive())
		lease := p.try(l, "write")
		ctx, leave := context.WithCancel(p.Context())
		ended := make(chan error, 1)
		go func() { ended <- errOf(l.Acquire(ctx, flowers, "write")) }()
		synctest.Wait()
		w.Take()
		p.detach(lease)
		synctest.Wait()
		if sent := w.Take(); len(sent) != 1 {
			p.Errorf("a detach beside a waiter sends %q", sent)
		}
		time.Sleep(10 * time.Second)
		if w.Count() == 0 {
			p.Error("nobody asks any more")
		}
		leave()
		p.want(<-ended, doclock.ErrNotAcquired)
	})
}

// A lease that was resumed here is handed over to a waiter of this process, whatever the waiter has seen.
func TestAResumedLeaseIsHandedOver(t *testing.T) {
	for range 8 { // the waiter's pauses are drawn, and it may ask at the right moment
		t.Run("", func(t *testing.T) {
			virtual(t, func(p *place) {
				l := p.locker(p.coll, relations.Exclusive(), doclock.TTL(time.Hour), doclock.PollInterval(time.Minute))
				token := p.detach(p.try(l, "write"))
				waiter := acquire(p, p.Context(), l, "write")
				time.Sleep(10 * time.Minute) // it asks seldom by now
				begun := time.Now()
				p.release(p.resume(l, token))
				p.release(p.granted(waiter))
				if took := time.Since(begun); took > 0 {
					p.Errorf("granted after %v", took)
				}
			})
		})
	}
}

// Whatever one user of a token does, nobody else is let in while the lease of an earlier
// user, who has not detached, is valid: the document may be deleted and made anew.
func TestRule23AnEarlierUserKeepsOthersOut(t *testing.T) {
	for name, end := range map[string]func(*place, doclock.Lease) error{
		"Release":          func(p *place, l doclock.Lease) error { return l.Release(p.Context()) },
		"UpdateAndRelease": func(p *place, l doclock.Lease) error { return l.UpdateAndRelease(p.Context(), plusOne) },
		"Convert":          func(p *place, l doclock.Lease) error { _, err := l.Convert(p.Context(), "write"); return err },
		"Delete":           func(p *place, l doclock.Lease) error { return l.Delete(p.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(p *place) {
				l := p.locker(p.coll, relations.Exclusive(), doclock.Upsert(), doclock.TTL(10*time.Second))
				token := p.detach(p.try(l, "write"))
				earlier := p.resume(l, token)
				time.Sleep(2 * time.Second)
				later := p.resume(l, token)
				ended := make(chan error, 1)
				go func() { ended <- end(p, later) }()
				_, err := p.locker(p.coll, relations.Exclusive(), doclock.Upsert()).Acquire(p.Context(), flowers, "write")
				if err != nil || earlier.Err() == nil {
					p.Errorf("the outsider: %v, the earlier user: %v", err, earlier.Err())
				}
				if err := <-ended; err != nil && name != "Convert" { // which doesn't wait
					p.Error(err)
				}
			})
		})
	}
}

// A delete by the lease of a token waits for the time of HoldAtLeast, and deletes nothing if
// its own time is up first.
func TestDeleteByATokenWaitsForHoldAtLeast(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.plain(relations.Exclusive(), doclock.Upsert())
		for _, least := range []time.Duration{5 * time.Second, time.Hour} {
			lease := p.resume(l, p.detach(p.try(l, "write", doclock.HoldAtLeast(least))))
			begun := time.Now()
			err := lease.Delete(p.Context())
			took, waits := time.Since(begun), min(least, 10*time.Second)
			stands, found := p.coll.CountDocuments(p.Context(), flowers)
			ok(p, found)
			if late := least > waits; late != (err != nil) || late != (stands == 1) || took < waits-time.Second || took > waits+3*time.Second {
				p.Errorf("after a HoldAtLeast of %v a delete took %v: %v, %d documents", least, took, err, stands)
			}
		}
	})
}

// convert converts a lease.
func (p *place) convert(lease doclock.Lease, tag string) doclock.Lease {
	p.Helper()
	next, err := lease.Convert(p.bounded(), tag)
	if err != nil {
		p.Fatalf("Convert: %v", err)
	}
	return next
}

// A conversion passes a writer that waits for both tags: the writer is not in its way, and no
// error names him. A new reader is refused.
func TestRule24WhoWaitsStaysBehindAConversion(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Fair())
	writer := p.try(l, "write")
	behind := p.enqueue(p.locker(p.coll, relations.Fair()), "write")
	reader := p.convert(writer, "read")
	_, err := l.TryAcquire(t.Context(), flowers, "read")
	p.want(err, doclock.ErrConflict)
	writer = p.convert(reader, "write")
	p.release(writer)
	p.release(p.got(behind.Wait(p.bounded())))
}

// A refusal names who is in the way, and the lease goes on. One that only a repeat has found may
// have nobody to name.
func TestConversionIsRefused(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Fair())
	lease, other := p.try(l, "read"), p.try(l, "read")
	behind := p.enqueue(l, "write")
	_, err := lease.Convert(t.Context(), "write")
	if c := p.conflict(err); c.Tag != "write" || len(c.Holders) != 1 || c.Holders[0].ID != other.ID() || c.RetryAfter <= 0 {
		t.Errorf("the conflict is %+v", c)
	}
	p.wantNot(err, doclock.ErrNotAcquired)
	p.want(lease.Err(), nil)
	ok(t, lease.Update(t.Context(), bson.M{"$inc": bson.M{"total": 1}}))
	p.release(other)
	lease = p.convert(lease, "write")
	ok(t, behind.Cancel(t.Context()))
	p.Change(bson.M{"$set": bson.M{"lock.tags.write.0.n": 1}}) // as a refused attempt has
	_, err = lease.Convert(t.Context(), "read")
	if c := p.conflict(err); len(c.Holders) != 0 || !strings.Contains(c.Error(), "have left since") || strings.Contains(c.Error(), "by , ") {
		t.Errorf("the conflict is %v", c)
	}
	p.release(p.convert(lease, "read"))
	p.wantEntries()
	lease = p.try(l, "write", doclock.HoldAtLeast(time.Hour))
	_, err = lease.Convert(t.Context(), "read")
	if c := p.conflict(err); len(c.Holders) != 1 || c.Holders[0].ID != lease.ID() || c.RetryAfter < 50*time.Minute {
		t.Errorf("the conflict is %+v", c)
	}
	p.release(lease)
}

// leaving is a document whose decoding takes until its caller's context has ended, and fails.
type leaving struct{ leave func() }

func (d *leaving) UnmarshalBSON([]byte) error { d.leave(); return errors.New("too late") }

// A resume whose context ends while it decodes leaves the entry to the users of the token again.
func TestResumeThatEndsWhileItDecodes(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.plain(relations.Exclusive())
		token := p.detach(p.try(l, "write"))
		ctx, cancel := context.WithCancel(p.Context())
		p.want(errOf(l.Resume(ctx, flowers, token, doclock.Into(&leaving{cancel}))), doclock.ErrNotAcquired)
		synctest.Wait()
		if e := p.entries("write"); len(e) != 1 || !e[0].Detached {
			p.Errorf("the entry is %+v", e)
		}
		p.release(p.resume(l, token))
		p.wantEntries() // no remainder
	})
}

// Rules 23 and 27. A server that is no longer the primary finds nothing: the touch is repeated,
// also if the entry has had transactions.
func TestRule23ATouchOfAMarkedEntryIsRepeated(t *testing.T) {
	virtual(t, func(p *place) {
		coll, net := p.faulty()
		l := p.locker(coll, relations.Exclusive())
		token := p.detach(p.try(l, "write"))
		mark := bson.Binary{Subtype: bson.TypeBinaryUUID, Data: make([]byte, 16)}
		mark.Data[0] = 1
		p.Change(bson.M{"$set": bson.M{"lock.tags.write.0.fenced": bson.M{"id": mark, "slots": 1}}})
		net.ArmRewrite(faultnet.Refuse, "findAndModify", func(bson.Raw) any { return bson.M{"ok": 1, "value": nil} })
		ok(p, l.Touch(p.Context(), flowers, token))
	})
}

// A resume was executed, and its reply lost. Then the filter matches no more, and the repeat is answered by a server that is no
// longer the primary: the proof must find the resume's own id, and have it repeated.
func TestRule27ARepeatedResumeThatADeposedPrimaryMisses(t *testing.T) {
	t.Parallel()
	onCluster(t, func(p *place) {
		coll, net := p.faulty()
		l := p.locker(coll, relations.Exclusive())
		token := p.detach(p.try(l, "write"))
		fault := net.Arm(faultnet.LoseReply, "findAndModify")
		net.ArmRewrite(faultnet.Refuse, "findAndModify", func(bson.Raw) any { return bson.M{"ok": 1, "value": nil} })
		resumed := begin(p, func() (doclock.Lease, error) {
			return l.Resume(p.bounded(), bson.M{"_id": 1, "total": 1}, token)
		})
		wait(p, fault.Fired())
		must(p, errOf(p.coll.UpdateOne(p.Context(), flowers, bson.M{"$set": bson.M{"total": 2}})))
		lease, err := resumed.wait()
		must(p, err)
		p.release(lease)
	})
}
