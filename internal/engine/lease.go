package engine

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Grant is what a holder knows about its entry, which is the one of the grant's image.
type Grant struct {
	Entry
	Pin  Pin
	TTL  time.Duration
	Most time.Duration // of its terms

	Secret uuid.UUID // of the token that has resumed it

	Chosen bool // its terms have the TTL
	Batch  bool // other documents may have its id and fence

	// LastDone is the newest id in `done` in the grant's image, or Nil. While
	// that id is still there, no later id was pushed out.
	LastDone uuid.UUID

	// Alone is the lock.fence of the grant's image if that image had no other
	// entry, or else 0. While lock.fence has that value, no other entry has
	// come.
	Alone int64
}

// Grant reads the grant of a request from an image that has the entry.
func (e *Engine) Grant(img *Image, r Request) Grant {
	own, _ := img.Lock.Find(r.Tag, r.ID)
	g := Grant{Entry: own, Pin: e.Pin(img), TTL: e.LeaseBy(r.Tag, r.Terms), Most: r.Terms.Most, Chosen: r.Terms.TTL > 0}
	if len(img.Lock.Entries) == 1 {
		g.Alone = img.Lock.Fence
	}
	if n := len(img.Lock.Done); n > 0 {
		g.LastDone = img.Lock.Done[n-1]
	}
	return g
}

// Guard is the filter that matches while the entry is in the document with its
// own fencing token, and with more, if that is given. It uses no clock: an entry is
// valid while it is present.
func (e *Engine) Guard(g Grant, more ...bson.E) bson.D {
	entry := append(bson.D{{Key: idKey, Value: idValue(g.ID)}, {Key: fenceKey, Value: g.Fence}}, more...)
	return g.Pin.and(e.having(g.Tag, entry))
}

// having is the condition that the tag has such an entry.
func (e *Engine) having(tag string, entry bson.D) bson.E {
	return bson.E{Key: e.path(tag), Value: value(bson.D{{Key: "$elemMatch", Value: entry}})}
}

// owns says that an entry is the grant's own: that the guard matches it.
func (g Grant) owns(e Entry) bool { return e.Tag == g.Tag && e.ID == g.ID && e.Fence == g.Fence }

// withID says of an entry what the filter of that name does.
func withID(tag string, id uuid.UUID) func(Entry) bool {
	return func(e Entry) bool { return e.Tag == tag && e.ID == id }
}

// withID is the filter that matches while an entry has the id.
func (e *Engine) withID(pin Pin, tag string, id uuid.UUID) bson.D {
	return pin.and(bson.E{Key: e.path(tag) + "." + idKey, Value: idValue(id)})
}

// Renew sends one renewal. It extends only an entry with this id and this
// fencing token.
func (e *Engine) Renew(ctx context.Context, g Grant) (Answer, error) {
	return e.matched(ctx, g.Pin, change{comment: forRenew, query: e.Guard(g), update: e.renewing(g)}, Renewed, g.owns)
}

// Look is a renewal whose image shows the whole lock, and the document if it is
// asked for.
func (e *Engine) Look(ctx context.Context, g Grant, document bool) (Answer, error) {
	img, sent, err := e.show(ctx, change{comment: forRenew, query: e.Guard(g), update: e.renewing(g)}, Request{Tag: g.Tag, ID: g.ID, Document: document})
	a := Answer{Outcome: Renewed, Image: img, Sent: sent}
	if img == nil {
		return e.lost(ctx, a, err, g.Pin, g.owns)
	}
	return a, err
}

// matched sends a change whose query decides everything: it matches the document of the
// pin while that has an entry that is its own.
func (e *Engine) matched(ctx context.Context, pin Pin, c change, outcome Outcome, own func(Entry) bool) (Answer, error) {
	img, sent, err := e.send(ctx, c)
	a := Answer{Outcome: outcome, Sent: sent}
	if img == nil {
		return e.lost(ctx, a, err, pin, own)
	}
	return a, err
}

// renewing is the update of a renewal, which leaves all but the expiry as it is.
func (e *Engine) renewing(g Grant) bson.RawValue {
	return e.fill(renewing, Request{Tag: g.Tag, ID: g.ID, Terms: Terms{TTL: g.TTL}})
}

// RenewAll sends the renewals of several leases in one command. The outcome is
// Renewed if every entry was there with its fencing token, and else Lost. The
// answer counts the statements that matched and does not name those that
// didn't. If the outcome is Lost, or there is an error, some entries may have
// been extended: see [Engine.Standing].
func (e *Engine) RenewAll(ctx context.Context, grants []Grant) (Answer, error) {
	missing, sent, err := e.each(ctx, forRenew, grants, func(g Grant) any { return e.renewing(g) })
	a := Answer{Outcome: Lost, Sent: sent}
	if err == nil && missing == 0 {
		a.Outcome = Renewed
	}
	return a, err
}

// ReleaseAll sends the releases of several leases in one command, each by id and fencing
// token. It counts the entries that were not there, and doesn't name them. If there is an
// error, some entries may have been removed.
func (e *Engine) ReleaseAll(ctx context.Context, grants []Grant) (missing int, err error) {
	missing, _, err = e.each(ctx, forRelease, grants, func(g Grant) any {
		if g.Until.IsZero() {
			return e.fill(releasing, Request{Tag: g.Tag, ID: g.ID})
		}
		return bson.A{e.remainder(g)}
	})
	return missing, err
}

// each sends an update of each grant's entry in one command, and counts those that are not
// there.
func (e *Engine) each(ctx context.Context, comment bson.RawValue, grants []Grant, update func(Grant) any) (missing int, sent Reading, err error) {
	statements := make([]bson.Raw, len(grants))
	for i, g := range grants {
		statements[i] = updateOf(e.Guard(g), update(g))
	}
	if sent, err = e.begin(ctx); err != nil {
		return 0, sent, err
	}
	reply, err := e.statements(ctx, e.name, comment, "update", statements...)
	return len(grants) - int(counted(reply, "n")), sent, err
}

// Standing is what a read shows of a lease's entry, which is there with its fencing
// token, or Lost.
type Standing struct {
	Left time.Duration // for how long the entry will stay: from the send on, less the tolerance
	Lost *Answer       // or nil
}

// Standing reads, in one command, how several leases stand. Where the server has
// members, the read is the proof that an entry is not there. Leases of several documents may
// have one id.
func (e *Engine) Standing(ctx context.Context, grants []Grant) (all []Standing, sent Reading, err error) {
	all = make([]Standing, len(grants))
	pins := make([]Pin, len(grants))
	for i, g := range grants {
		pins[i], all[i].Lost = g.Pin, &Answer{Outcome: Lost, Gone: true}
	}
	found := search{comment: forProof, filter: e.among(pins), fields: e.projection(Request{}), batch: int32(len(grants)) + 1}
	docs, sent, err := e.newest(ctx, found)
	for _, doc := range docs {
		now, _ := doc.Lookup(nowKey).TimeOK()
		entries := e.allEntries(doc)
		img, _ := e.imageOf(doc)
		for at, g := range grants {
			i := slices.IndexFunc(entries, g.owns)
			switch {
			case !g.Pin.ID().Equal(img.ID):
			case i >= 0:
				all[at] = Standing{Left: e.remaining(entries[i], now, g.TTL)}
			case g.Pin.equals(e.Pin(img)): // and not the document of that _id on another shard
				all[at].Lost = &Answer{Outcome: Lost, Image: img}
			}
		}
	}
	return all, sent, err
}

// remaining is for how long an entry counts that a read has shown: from the read's send on.
func (e *Engine) remaining(entry Entry, now time.Time, ttl time.Duration) time.Duration {
	return min(max(entry.Expires.Sub(now), 0)-e.Tolerance, ttl)
}

// Write sends the caller's update under the guard and keeps the lock. k is the
// write's number in this lease. The entry remembers the last number, so that a
// repeat is not applied twice.
func (e *Engine) Write(ctx context.Context, g Grant, u *Update, k int64) (Answer, error) {
	notYet := bson.E{Key: writeKey, Value: bson.D{{Key: "$not", Value: bson.D{{Key: "$gte", Value: k}}}}}
	c := u.change(e.Guard(g, notYet))
	if u.stages != nil {
		entries := inPlace("$"+e.path(g.Tag), idValue(g.ID), bson.D{{Key: writeKey, Value: k}})
		c.update = u.pipeline(setStage(bson.D{{Key: e.path(g.Tag), Value: entries}}))
	} else {
		c.update = u.classic(operator{numbering, field(e.path(g.Tag)+".$["+ownIdentifier+"]."+writeKey, long(k))})
		c.filters = append(slices.Clone(u.filters), field(ownIdentifier+"."+idKey, idValue(g.ID)))
	}
	return e.matched(ctx, g.Pin, c, Applied, func(own Entry) bool { return g.owns(own) && own.Writes < k })
}

// WriteAndRelease sends the caller's update under the guard. The same command
// releases the lock and pushes the lease's id to `done`, where a repeat finds
// its verdict. The update must be one that [Update.Releases].
func (e *Engine) WriteAndRelease(ctx context.Context, g Grant, u *Update) (Answer, error) {
	c := u.change(e.Guard(g))
	if u.stages != nil {
		c.update = u.pipeline(e.finished(g))
	} else {
		c.update = u.classic(operator{"$pull", field(e.path(g.Tag), embedded(field(idKey, idValue(g.ID))))}, e.pushDone(g))
	}
	return e.matched(ctx, g.Pin, c, Applied, g.owns)
}

// Releases says that the update's command can release the entry too. A classic update
// can't compare with the clock, as it must for an entry that may leave a remainder.
func (u *Update) Releases(g Grant) bool { return u.stages != nil || g.Until.IsZero() }

// finished is the stage that releases the lock after a pipeline update.
func (e *Engine) finished(g Grant) bson.Raw {
	path, done, id := e.path(g.Tag), e.Field+"."+doneKey, idValue(g.ID)
	entries := others("$"+path, id)
	if !g.Until.IsZero() {
		entries = e.leaving(g)
	}
	return setStage(bson.D{
		{Key: path, Value: entries},
		{Key: done, Value: call("$slice", call("$concatArrays", orElse("$"+done, args{}), args{id}), -doneCap)},
	})
}

var nothing, lastIDs = value(""), value(-doneCap)

// pushDone is the operator that pushes to `done` in a classic update.
func (e *Engine) pushDone(g Grant) operator {
	last := assemble(64).add("$each", array(idValue(g.ID))).add("$slice", lastIDs)
	return operator{"$push", field(e.Field+"."+doneKey, embedded(last.end()))}
}

// change is a change by the update, with the caller's options.
func (u *Update) change(query any) change {
	return change{query: query, filters: u.filters, options: u.options}
}

// Release sends one release of the entry with the grant's id. An entry with
// that id and another fencing token comes from a late duplicate of the acquire:
// it is removed too, unless it is a token's, but the lease was lost.
func (e *Engine) Release(ctx context.Context, g Grant) (Answer, error) {
	release := change{comment: forRelease, new: no, fields: e.fill(fences, Request{Tag: g.Tag})}
	if g.Until.IsZero() && g.Key == uuid.Nil {
		release.query = e.withID(g.Pin, g.Tag, g.ID)
		release.update = e.fill(releasing, Request{Tag: g.Tag, ID: g.ID})
	} else {
		release.query = g.Pin.and(e.having(g.Tag, bson.D{{Key: idKey, Value: idValue(g.ID)}}))
		release.update = bson.A{e.remainder(g)}
	}
	img, sent, err := e.send(ctx, release)
	a := Answer{Outcome: Released, Sent: sent}
	if img == nil {
		return e.lost(ctx, a, err, g.Pin, withID(g.Tag, g.ID))
	}
	if !slices.ContainsFunc(e.allEntries(img), g.owns) {
		a.Outcome = Lost
	}
	return a, err
}

// endStage is the stage that ends the lease in a handoff.
func (e *Engine) endStage(g Grant) bson.Raw {
	if g.Until.IsZero() {
		return firstStage(e.fill(leaving, Request{Tag: g.Tag, ID: g.ID}))
	}
	return e.remainder(g)
}

// remainder is the stage that ends the lease of an entry that may leave a
// remainder.
func (e *Engine) remainder(g Grant) bson.Raw {
	return setStage(bson.D{{Key: e.path(g.Tag), Value: e.leaving(g)}})
}

// leaving is the tag's array without the own entry, or with the remainder in
// its place. An entry with the own id and another fencing token goes too,
// unless it is a token's.
func (e *Engine) leaving(g Grant) bson.D {
	own, ours := call("$eq", "$$e."+idKey, idValue(g.ID)), call("$eq", "$$e."+fenceKey, long(g.Fence))
	stays := call("$or", not(own), cond(ours, call("$gt", "$$e."+untilKey, e.serverTime()), "$$e."+tokenKey))
	remainder := inherited()
	remainder.id, remainder.expires, remainder.until = idValue(uuid.New()), "$$e."+untilKey, "$$e."+untilKey
	return mapped(filter("$"+e.path(g.Tag), "e", stays), "e", cond(all(own, ours), remainder.document(), "$$e"))
}

// Successor is a waiter of this process to which a lease's holder hands the
// lock over. One command releases the holder's entry and grants the
// successor's.
type Successor struct {
	Request      // of the entry to be granted; its id is new, unless the entry waits
	Waiting bool // the entry is in the document and waits
}

// Handoff releases the grant's entry and applies the successor's arrival or confirm, as
// if that came directly after. The lock is released also if the successor is not granted;
// a new one then leaves no trace. A repeat does nothing. The image is nil if the grant's
// entry is not there. Beside an error, it says that the lock was released.
func (e *Engine) Handoff(ctx context.Context, g Grant, s Successor) (Answer, error) {
	return e.pass(ctx, change{comment: forHandoff, query: e.Guard(g), update: bson.A{e.endStage(g), e.entering(s)}}, s)
}

// WriteAndHandOff is WriteAndRelease and a handoff in one command. A classic update
// can't carry the handoff's pipeline, so it is a compare-and-set: of a grant whose
// image has no other entry, while lock.fence is still the image's. The successor, new
// and of the same tag, takes the entry's place, and its expiry, because plain operators
// can't compute with the clock.
func (e *Engine) WriteAndHandOff(ctx context.Context, g Grant, u *Update, s Successor) (Answer, error) {
	if u.stages != nil {
		c := u.change(e.Guard(g))
		c.update = u.pipeline(e.finished(g), e.entering(s))
		return e.pass(ctx, c, s)
	}
	c := u.change(e.alone(g))
	c.update = u.classic(e.succession(g, s)...)
	return e.pass(ctx, c, s)
}

// Piggybacks reports whether WriteAndHandOff can send the update, and whether
// the successor then inherits the rest of the lease.
func (e *Engine) Piggybacks(g Grant, u *Update, s Successor) (can, inherits bool) {
	if u.stages != nil {
		return true, false
	}
	unchanged := e.LeaseBy(s.Tag, s.Terms) == g.TTL && s.Terms.Least == 0 && s.Terms.Most == 0 && g.Until.IsZero()
	return g.Alone != 0 && g.Alone+1 < fenceLimit && !s.Waiting && s.Tag == g.Tag && unchanged, true
}

// entering is the stage that decides on the successor's entry.
func (e *Engine) entering(s Successor) bson.Raw {
	if s.Waiting {
		return firstStage(e.confirming(s.Request))
	}
	s.Try = true
	return firstStage(e.arriving(s.Request))
}

// alone is the guard that also requires that the entry is still the only one.
func (e *Engine) alone(g Grant) bson.D {
	first := e.path(g.Tag) + ".0."
	return g.Pin.and(
		bson.E{Key: first + idKey, Value: idValue(g.ID)},
		bson.E{Key: first + fenceKey, Value: long(g.Fence)},
		bson.E{Key: e.Field + "." + fenceKey, Value: long(g.Alone)},
	)
}

// succession are the operators that replace the grant's entry, which is the
// only one, with the successor's. The successor has no writes, no mark and no token yet.
func (e *Engine) succession(g Grant, s Successor) []operator {
	first, next := e.path(g.Tag)+".0.", long(g.Alone+1)
	set := assemble(256).
		add(e.Field+"."+fenceKey, next).
		add(first+idKey, idValue(s.ID)).
		add(first+ownerKey, textValue(cmp.Or(s.Terms.Owner, e.Owner))).
		add(first+seqKey, next).
		add(first+fenceKey, next)
	unset := assemble(96).add(first+writeKey, nothing).add(first+markKey, nothing)
	if g.Key != uuid.Nil {
		unset = unset.add(first+tokenKey, nothing)
	}
	own := []operator{
		{"$unset", unset.end()},
		e.pushDone(g),
	}
	if e.Now != nil {
		set = set.add(first+sinceKey, value(e.Now()))
	} else {
		own = append(own, operator{"$currentDate", field(first+sinceKey, yes)})
	}
	return append(own, operator{"$set", set.end()})
}

// pass sends a handoff, and reads the successor's image.
func (e *Engine) pass(ctx context.Context, c change, s Successor) (Answer, error) {
	img, sent, err := e.show(ctx, c, s.Request)
	if err != nil {
		return Answer{Outcome: Lost, Image: img, Sent: sent}, err
	}
	noEntry := Conflict
	if s.Waiting {
		noEntry = Lost
	}
	return e.answer(img, nil, sent, s.Request, Lost, noEntry)
}

// Delete deletes the document, and the lock in it, under the guard. The outcome is
// Released, or Lost. If the entry is there all the same, a race is lost: DocumentDB's
// delete may pass over a document that is being updated, and that of a token's lease
// passes over one while the lease of an earlier user may be valid.
func (e *Engine) Delete(ctx context.Context, g Grant) (Answer, error) {
	filter, missed := e.Guard(g), "the document was being updated"
	if g.Key != uuid.Nil && !g.Until.IsZero() {
		filter = append(filter, bson.E{Key: "$expr", Value: call("$lte", g.Until, e.serverTime())})
		missed = "an earlier lease of the token, or the time of its HoldAtLeast, may last"
	}
	found, sent, err := e.send(ctx, change{comment: forDelete, query: filter, delete: true})
	a := Answer{Outcome: Released, Sent: sent}
	if found != nil || err != nil {
		return a, err
	}
	a.Outcome = Lost
	return e.proven(ctx, a, g.Pin, g.owns, missed)
}

// Detach ends the grant's handle, and leaves its entry to the users of a token
// with this key. The outcome is Detached, or Lost. The entry keeps its id, its
// fencing token and its number: until a resume, a late write of the handle still
// finds it, and is applied once.
func (e *Engine) Detach(ctx context.Context, g Grant, key uuid.UUID) (Answer, error) {
	d := e.decision(g.Tag, g.TTL)
	entries := inPlace(d.own, idValue(g.ID), bson.D{
		{Key: tokenKey, Value: idValue(key)},
		{Key: detachedKey, Value: true},
		{Key: expiresKey, Value: d.extended("$$e", d.held)},
	})
	return e.matched(ctx, g.Pin, change{comment: forDetach, query: e.Guard(g), update: stage(e.path(g.Tag), entries)}, Detached, g.owns)
}

// Convert gives up the grant's entry for one of another tag, with the id of the
// request and the owner of the grant's: a handoff to oneself, judged beside held entries
// only. The outcome is Granted, Lost, or Conflict, which leaves the entry as it is: others
// are in the way, or the grant's `until` has not come.
//
// k is the number of the lease's next write. A refusal writes it down, so that no other
// attempt with it is executed. A repeat extends the new entry.
func (e *Engine) Convert(ctx context.Context, g Grant, k int64, to Request) (Answer, error) {
	update := e.decisionOf(to).conversion("$"+e.path(g.Tag), g, k, idValue(to.ID))
	img, sent, err := e.show(ctx, change{comment: forConvert, query: bson.D(g.Pin), update: update}, to)
	a := Answer{Outcome: img.converted(g, to), Image: img, Sent: sent}
	if err == nil && a.Outcome == Conflict {
		err = e.exhausted(img)
	}
	if a.Outcome == Lost {
		a.Gone = img == nil
		return e.lost(ctx, a, err, g.Pin, func(e Entry) bool { return g.owns(e) || withID(to.Tag, to.ID)(e) })
	}
	return a, err
}

// converted is the outcome of a conversion. The image is nil if no document
// matched.
func (img *Image) converted(g Grant, to Request) Outcome {
	if img == nil {
		return Lost
	}
	if e, there := img.Lock.Find(to.Tag, to.ID); there && e.Held() {
		return Granted
	}
	if own, there := img.Lock.Find(g.Tag, g.ID); there && own.Held() && own.Fence == g.Fence {
		return Conflict
	}
	return Lost
}
