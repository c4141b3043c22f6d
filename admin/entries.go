package admin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Query says which entries of a collection are wanted: those that meet all of its
// fields. The zero Query is all.
type Query struct {
	Owner       string        // of this owner
	OwnerPrefix string        // of the owners whose names begin so: "web-3/" is all programs of a machine, by default
	Tags        []string      // under one of these tags
	OlderThan   time.Duration // arrived at least so long ago
	Only        Only          // live, or expired
}

// Only chooses entries by their expiry.
type Only uint8

// The choices of a [Query].
const (
	LiveOrExpired Only = iota // all
	Live
	Expired
)

// Entries reads the entries of a collection that a query asks for. It streams:
// memory doesn't grow with the collection, and the first entry comes as soon as the
// server has found some. The entries of one document come together, in the order of
// their arrival, and documents in the order in which the server finds them.
//
// The server's clock is read once, when the query begins, and all times are judged
// by it. So in a long query an entry that was renewed since has more time left than
// a renewal gives. The entries of one document are those of one moment; those of two
// documents may not be.
//
// A document whose lock field is foreign yields an Entry with its DocumentID alone,
// and a [doclock.ErrForeignLock], and the iteration goes on. If the query names
// tags, a foreign field is reported only if it has one of them. After any other
// error nothing follows. The loop may end at any time, also after the end of ctx:
// Entries then closes the server's cursor. If the loop pauses for longer than the
// server keeps a cursor (MongoDB: 10 minutes), the driver's error ends it.
//
// Without an index the server reads all documents of the collection. With
// [EnsureIndexes] a query of tags reads only the documents that have entries of
// these. (An entry without an id, which only an outside writer makes, is then found
// by a query without tags.) With an OwnerPrefix the server still sends the lock of
// each document, and this process chooses. A cooperative waiter has no entry: see
// [Waiting].
//
// Errors: those of [Inspect], without ErrNotFound. Options: [Within], [Rules],
// [Field], [ShardKey].
func Entries(ctx context.Context, coll *mongo.Collection, query Query, opts ...Option) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		d, err := open(ctx, coll, "Entries", opts, "Within", "Rules")
		if err == nil {
			err = query.check()
		}
		if err != nil {
			yield(Entry{}, err)
			return
		}
		for e, err := range d.entries(ctx, query) {
			if !yield(e, err) {
				return
			}
		}
	}
}

func (q Query) check() error {
	if q.OlderThan < 0 {
		return fmt.Errorf("%w: OlderThan is %v; give 0 for any age, or more", doclock.ErrInvalidArgument, q.OlderThan)
	}
	if q.Only > Expired {
		return fmt.Errorf("%w: Only is %d; give Live or Expired, or leave it out", doclock.ErrInvalidArgument, q.Only)
	}
	return checkTags(q.Tags)
}

// checkTags refuses names that no rules can have.
func checkTags(tags []string) error {
	if len(tags) == 0 {
		return nil
	}
	rules := relations.Rules{}
	for _, tag := range tags {
		rules[tag] = nil
	}
	if err := rules.Validate(); err != nil {
		return fmt.Errorf("%w: %w", doclock.ErrInvalidArgument, err)
	}
	return nil
}

// entries is the iteration of Entries. The server finds the documents, and this
// process chooses among their entries: a collection's collation may take two
// owners for one.
func (d *desk) entries(ctx context.Context, q Query) iter.Seq2[Entry, error] {
	s := engine.Survey{
		Within: d.survey, Tags: q.Tags, Owner: q.Owner, Age: q.OlderThan.Truncate(time.Millisecond),
		Live: q.Only == Live, Expired: q.Only == Expired,
	}
	return func(yield func(Entry, error) bool) {
		for img, err := range d.engine.Survey(ctx, s) {
			if err != nil {
				err = read("read the locks", err)
				if !yield(foundAt(img), err) || !errors.Is(err, doclock.ErrForeignLock) {
					return
				}
				continue
			}
			for _, e := range d.entriesOf(img) {
				if q.chooses(e) && !yield(e, nil) {
					return
				}
			}
		}
	}
}

func foundAt(img *engine.Image) Entry {
	if img == nil {
		return Entry{}
	}
	return Entry{DocumentID: img.ID}
}

func (q Query) chooses(e Entry) bool {
	return (q.Owner == "" || e.Owner == q.Owner) && strings.HasPrefix(e.Owner, q.OwnerPrefix) &&
		(len(q.Tags) == 0 || slices.Contains(q.Tags, e.Tag)) &&
		(q.OlderThan == 0 || e.Age >= q.OlderThan) &&
		(q.Only == LiveOrExpired || e.Expired() == (q.Only == Expired))
}
