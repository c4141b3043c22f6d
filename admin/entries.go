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
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

// Lock is the lock of one document, as one read found it.
type Lock struct {
	DocumentID bson.RawValue `json:"-"`       // the document's _id
	Now        time.Time     `json:"now"`     // the server's clock at the read
	Fence      int64         `json:"fence"`   // the last value given out, as a fencing token or an order of arrival
	Entries    []Entry       `json:"entries"` // in the order of arrival

	// InTheWay has, for each tag of the option [Rules], the ids of the live entries
	// that keep an acquire under it back now, in the order of their tags. The list
	// is empty if nothing keeps the tag back. Without Rules InTheWay is nil.
	InTheWay map[string][]uuid.UUID `json:"inTheWay,omitempty"`
}

// Inspect reads the entries of one document that the filter matches, in one read. A
// document without a lock has no entries. A cooperative waiter has none: see
// [Waiting].
//
// Errors: [doclock.ErrNotFound], [doclock.ErrForeignLock],
// [doclock.ErrInvalidArgument], [relations.ErrInvalidRules],
// [doclock.ErrInTransaction], [doclock.ErrUnsupportedServer], and the driver's.
// Options: [Rules], [Field], [ShardKey].
func Inspect(ctx context.Context, coll *mongo.Collection, filter any, opts ...Option) (*Lock, error) {
	d, err := open(ctx, coll, "Inspect", opts, "Rules")
	if err != nil {
		return nil, err
	}
	f, err := d.engine.ParseFilter(filter)
	if err != nil {
		return nil, fmt.Errorf("%w: the filter: %w", doclock.ErrInvalidArgument, err)
	}
	var img *engine.Image
	if err := attempt.Read(ctx, d.bounds(), func(ctx context.Context) (err error) { img, err = d.engine.Find(ctx, f); return err }); err != nil {
		return nil, readError("inspect a lock", err)
	}
	if img == nil {
		return nil, doclock.ErrNotFound
	}
	return d.lockOf(img), nil
}

// lockOf is the lock that an image shows.
func (d *desk) lockOf(img *engine.Image) *Lock {
	lock := &Lock{DocumentID: img.ID, Now: img.Now.UTC(), Fence: img.Lock.Fence, Entries: d.entriesOf(img)}
	if d.rules != nil {
		lock.InTheWay = map[string][]uuid.UUID{}
	}
	for tag := range d.rules {
		blocking, _ := engine.InTheWay(d.rules, img, tag, nil)
		lock.InTheWay[tag] = idsOf(blocking)
	}
	return lock
}

// Projection is what a query of your own asks for, beside the fields that it wants, so
// that [LockOf] can read the locks of the documents that it finds: a page of fifty
// orders and their holders is one find. It has the lock's field and the server's time,
// and with [ShardKey] those fields. An option that is wrong is an error of LockOf.
// Options: [Field], [ShardKey].
func Projection(opts ...Option) bson.D {
	d, _ := choose("Projection", opts)
	return engine.Reader(d.config.engine).Seen()
}

// LockOf reads the lock of a document that a query of your own has found, with the
// fields of [Projection], and sends nothing. It is as old as that query, and only as
// true as its read concern: it is for people to look at, and for [Break]. The field of
// the document has the keys of tokens: show the Lock, and not the field.
//
// Errors: [doclock.ErrForeignLock], [doclock.ErrInvalidArgument] (also of a document
// without these fields), and [relations.ErrInvalidRules]. Options: [Rules], [Field], [ShardKey].
func LockOf(doc bson.Raw, opts ...Option) (*Lock, error) {
	d, err := choose("LockOf", opts, "Rules")
	if err != nil {
		return nil, err
	}
	d.engine = engine.Reader(d.config.engine)
	img, err := d.engine.ImageIn(doc)
	switch {
	case img == nil:
		return nil, fmt.Errorf("%w: LockOf: %w", doclock.ErrInvalidArgument, err)
	case err != nil:
		return nil, readError("read a lock", err)
	default:
		return d.lockOf(img), nil
	}
}

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
// server has found some. The entries of one document come together, as they were at
// one moment, in the order of their arrival.
//
// The server's clock is read once, when the query begins, and all times are judged
// by it. So in a long query an entry that was renewed since has more time left than
// a renewal gives.
//
// A document whose lock field is foreign yields an Entry with its DocumentID alone,
// and a [doclock.ErrForeignLock], and the iteration goes on; if the query names
// tags, only if the field has one of them. After any other error nothing follows.
// The loop may end at any time, also after the end of ctx: Entries then closes the
// server's cursor. The server ends a loop that pauses for longer than it keeps a
// cursor (MongoDB: 10 minutes).
//
// Without an index the server reads all documents: see [EnsureIndexes]. With an
// OwnerPrefix it sends the lock of each document, and this process chooses.
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
		d.entries(ctx, query)(yield)
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
	for _, tag := range tags {
		if err := (relations.Rules{tag: nil}).Validate(); err != nil {
			return fmt.Errorf("%w: %w", doclock.ErrInvalidArgument, err)
		}
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
		for img, err := range d.surveyed(ctx, s) {
			if err != nil {
				var at Entry
				if img != nil {
					at.DocumentID = img.ID
				}
				err = readError("read the locks", err)
				if !yield(at, err) || !errors.Is(err, doclock.ErrForeignLock) {
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

func (q Query) chooses(e Entry) bool {
	return (q.Owner == "" || e.Owner == q.Owner) && strings.HasPrefix(e.Owner, q.OwnerPrefix) &&
		(len(q.Tags) == 0 || slices.Contains(q.Tags, e.Tag)) &&
		(q.OlderThan == 0 || e.Age >= q.OlderThan) &&
		(q.Only == LiveOrExpired || e.Expired() == (q.Only == Expired))
}

// EnsureIndexes makes one index for each of these tags, if it isn't there, and
// returns their names: {"lock.tags.<tag>.id": 1}, sparse. With them a [Query] of
// tags reads only the documents that have entries of these now. (An entry without an
// id, which only an outside writer makes, is then found by a query without tags.)
// For [Sweep] give [Within] a filter with the same path, such as
// {"lock.tags.write.id": {$exists: true}}.
//
// Each grant and each release then writes to the index, and a renewal doesn't.
// Nothing else in doclock makes an index. Never make a TTL index on the lock field:
// it would delete your documents.
//
// Errors: [doclock.ErrInvalidArgument], [doclock.ErrInTransaction], and the
// driver's. Options: [Field]. ([ShardKey] has no effect.)
func EnsureIndexes(ctx context.Context, coll *mongo.Collection, tags []string, opts ...Option) ([]string, error) {
	d, err := open(ctx, coll, "EnsureIndexes", opts)
	if err != nil {
		return nil, err
	}
	if len(tags) == 0 {
		return nil, fmt.Errorf("%w: there are no tags; name those that your queries name", doclock.ErrInvalidArgument)
	}
	if err := checkTags(tags); err != nil {
		return nil, err
	}
	var indexes []mongo.IndexModel
	for i, tag := range tags {
		if slices.Contains(tags[:i], tag) {
			continue
		}
		path := bson.D{{Key: d.engine.IndexedPath(tag), Value: 1}}
		indexes = append(indexes, mongo.IndexModel{Keys: path, Options: options.Index().SetSparse(true)})
	}
	majority := options.Collection().SetWriteConcern(writeconcern.Majority())
	names, err := coll.Clone(majority).Indexes().CreateMany(ctx, indexes)
	if err != nil {
		return nil, oneline.Because(errors.New("doclock: make the indexes"), err)
	}
	return names, nil
}
