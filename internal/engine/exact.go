package engine

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Exact names one entry by its tag, id and fencing token. An entry that was
// granted or resumed since is another one.
type Exact struct {
	Pin   Pin
	Tag   string
	ID    uuid.UUID
	Fence int64 // 0 for a waiting entry

	// Expired, if it is set, is the entry's expiry. The entry is removed only if
	// it was not extended since, and the server's clock has reached that time.
	Expired time.Time
}

// RemoveExactly removes one entry, whoever holds it, and whatever its key and
// its `until` are. A held one leaves its fencing token in the lock, for the verdict of
// its holder's release. It returns the image from before, or nil if the entry was
// not there.
func (e *Engine) RemoveExactly(ctx context.Context, x Exact) (*Image, error) {
	filter, update := e.exactly(x)
	fields := e.image.fill(uuid.Nil, e.now()).document()
	img, err := e.readImage(e.change(ctx, change{comment: forAdmin, query: filter, update: update, shows: before, fields: fields}))
	if img == nil && err == nil {
		return nil, e.absent(ctx, filter)
	}
	if err != nil {
		return nil, err
	}
	return img, nil
}

// RemoveEach removes several entries in one command, and returns how many it
// removed. Each one is removed by itself: an error may come beside a number.
func (e *Engine) RemoveEach(ctx context.Context, entries []Exact) (removed int64, err error) {
	entries = slices.Clone(entries)
	slices.SortStableFunc(entries, func(a, b Exact) int { return a.Pin.Compare(b.Pin) })
	statements := make([]bson.Raw, len(entries))
	for i, x := range entries {
		statements[i] = updateOf(e.exactly(x))
	}
	reply, err := e.statements(ctx, forAdmin, "update", statements...)
	return counted(reply, "nModified"), err
}

// DeleteIdle deletes documents that hold nothing but a lock without a live
// entry, and returns how many it deleted. idle is how long ago the last entry
// was granted or joined.
func (e *Engine) DeleteIdle(ctx context.Context, pins []Pin, idle time.Duration) (deleted int64, err error) {
	pins = slices.Clone(pins)
	slices.SortStableFunc(pins, Pin.Compare)
	d := e.anyDecision()
	statements := make([]bson.Raw, len(pins))
	for i, pin := range pins {
		statements[i] = deleteOf(pin.and(d.when(d.idle(idle, e.ShardKey), false)))
	}
	reply, err := e.statements(ctx, forAdmin, "delete", statements...)
	return counted(reply, "n"), err
}

// exactly is the filter and the update that remove one entry. A lock that is
// foreign by now is left as it is.
func (e *Engine) exactly(x Exact) (filter, update bson.D) {
	var fence any = x.Fence
	if x.Fence == 0 {
		fence = bson.D{{Key: "$in", Value: bson.A{nil, 0}}}
	}
	entry := bson.D{{Key: idKey, Value: idValue(x.ID)}, {Key: fenceKey, Value: fence}}
	d, path := e.anyDecision(), e.path(x.Tag)
	var test expr = true
	if !x.Expired.IsZero() {
		entry = append(entry, bson.E{Key: expiresKey, Value: x.Expired})
		test = call("$lte", x.Expired, d.now)
	}
	filter = x.Pin.and(bson.E{Key: path, Value: bson.D{{Key: "$elemMatch", Value: entry}}}, d.when(test, false))
	update = bson.D{{Key: "$pull", Value: bson.D{{Key: path, Value: entry}}}}
	if x.Fence != 0 && x.Expired.IsZero() { // its holder may count it as valid
		update = append(update, bson.E{Key: "$max", Value: bson.D{{Key: e.field + "." + brokenKey, Value: x.Fence}}})
	}
	return filter, update
}

// idle tests that a document may be deleted:
//
//   - It has no field but _id, the lock and the shard key's, if that names no
//     nested field.
//   - The lock has no live entry.
//   - Its fence, which follows the clock, is at least that long ago. A document
//     without a fence has just been made by an upsert, and is about to be locked.
//   - It has no `done`. A late repeat of a last write would not find its id in a
//     document that was made anew, and report that it was not applied (rule 18).
//
// Fields are counted rather than compared: a collation may take "Lock" for "lock".
func (d decision) idle(idle time.Duration, shardKey []string) expr {
	fields := args{2}
	for _, key := range shardKey {
		if !strings.Contains(key, ".") {
			fields = append(fields, present("$"+key))
		}
	}
	return cond(call("$eq", call("$type", d.lock), "object"),
		all(
			call("$eq", count("$$ROOT"), call("$add", fields...)),
			call("$eq", count(d.lock), call("$add", 1, present(d.lock+"."+tagsKey))),
			call("$gt", d.lock+"."+fenceKey, 0),
			call("$lte", d.lock+"."+fenceKey, call("$subtract", call("$toLong", d.now), idle.Milliseconds())),
			not(d.someEntry(nil, d.live())),
		), false)
}

// count is the number of a document's fields.
func count(document string) bson.D { return call("$size", call("$objectToArray", document)) }

// present is 1 if there is such a field, and else 0.
func present(path string) bson.D { return cond(call("$eq", call("$type", path), "missing"), 0, 1) }
