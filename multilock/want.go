package multilock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/bsonvalue"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
	"github.com/doclock/doclock/internal/oneline"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Want describes one of several leases that [AcquireAll] and [DoAll] acquire
// together. [Locker.Want] makes it.
type Want struct {
	locker *Locker
	filter any
	tag    string
	opts   []doclock.AcquireOption
}

// Want describes a lease for [AcquireAll] and [DoAll], by the arguments of
// [Locker.Acquire]. The filter must demand an equal _id, and in a sharded collection
// equal fields of the shard key, at its top level; it may demand more. Want checks
// nothing and sends nothing: AcquireAll does.
func (l *Locker) Want(filter any, tag string, opts ...doclock.AcquireOption) Want {
	return Want{locker: l, filter: filter, tag: tag, opts: slices.Clone(opts)}
}

// WantError says which of several wants could not be had. It wraps the error of a
// single acquire, which is a [doclock.ErrNotAcquired].
type WantError struct {
	Index      int           // of the want, among the arguments; of equal wants the first
	Collection string        // as in "shop.accounts"; "" if the want has no Locker
	DocumentID bson.RawValue // the zero value if the filter demands no equal _id
	Tag        string

	err error
}

// Error says which want could not be had, and why.
func (e *WantError) Error() string {
	what := fmt.Sprintf("doclock: wants[%d]", e.Index)
	if e.Collection != "" {
		what += fmt.Sprintf(", %q on a document of %s", e.Tag, e.Collection)
	}
	lock := fmt.Sprintf("%q on document %s of %s", e.Tag, bsonvalue.Readable(e.DocumentID), e.Collection)
	if !e.DocumentID.IsZero() {
		what = fmt.Sprintf("doclock: wants[%d], %s", e.Index, lock)
	}
	text := oneline.Because(errors.New(what), e.err).Error()
	text = what + strings.Replace(strings.TrimPrefix(text, what), ": "+lock, "", 1) // which what has said
	if missing := (*notFound)(nil); errors.As(e.err, &missing) && missing.filter.Exact && !e.DocumentID.IsZero() {
		text = strings.Replace(text, missing.where(), "", 1) // which what has said
	}
	return text
}

// Unwrap returns the error of a single acquire.
func (e *WantError) Unwrap() error { return e.err }

// wanted is a want whose arguments were checked.
type wanted struct {
	*call
	config  engine.AcquireConfig // its options, without the target of Into
	indexes []int                // of the equal wants that it stands for
}

// check checks a want's arguments; nothing is sent yet.
func (w Want) check(ctx context.Context, index int) (*wanted, error) {
	checked := &wanted{indexes: []int{index}}
	if w.locker == nil {
		return nil, checked.fault(fmt.Errorf("%w: the Want is empty; make it by a Locker's Want", doclock.ErrInvalidArgument))
	}
	a, err := w.locker.begin(ctx, w.filter, w.tag, w.opts)
	if err != nil {
		return nil, &WantError{Index: index, Collection: w.locker.engine.Namespace(), DocumentID: w.document(), Tag: w.tag, err: lease.Only(doclock.ErrNotAcquired, notAcquired(err))}
	}
	checked.call = a
	if a.filter.Pin == nil {
		return nil, checked.fault(fmt.Errorf("%w: its filter must demand an equal _id at its top level, "+
			"and in a sharded collection equal fields of the shard key: several documents are locked in the order of their _id", doclock.ErrInvalidArgument))
	}
	a.alone = true
	checked.config, _ = acquireConfig(w.opts) // which begin has checked
	checked.config.Into = nil
	return checked, nil
}

// document is the _id that the filter demands, or the zero value.
func (w Want) document() (id bson.RawValue) {
	if f, err := w.locker.engine.ParseFilter(w.filter); err == nil {
		id = documentOf(f.Pin)
	}
	return id
}

// fault is the error of this want.
func (w *wanted) fault(err error) error {
	e := &WantError{Index: w.indexes[0], err: lease.Only(doclock.ErrNotAcquired, notAcquired(err))}
	if w.call != nil {
		e.Collection, e.Tag = w.locker.engine.Namespace(), w.request.Tag
		e.DocumentID = documentOf(w.filter.Pin)
	}
	return e
}

// equals says that one lease can stand for both wants, which are of one
// document.
func (w *wanted) equals(other *wanted) bool {
	sameFilter := w.filter.Exact && other.filter.Exact || w.filter.Key() == other.filter.Key()
	return w.locker == other.locker && w.request.Tag == other.request.Tag && sameFilter && reflect.DeepEqual(w.config, other.config)
}

// add has the want stand for one that is equal to it, too.
func (w *wanted) add(other *wanted) {
	w.indexes = append(w.indexes, other.indexes...)
	w.into = append(w.into, other.into...)
	w.request.Document = len(w.into) > 0
}

// inOrder checks wants, and returns them in the order in which everybody locks:
// by collection, lock field, _id and shard key. Equal wants become one. Two
// others of one lock are refused, whatever their tags are: each caller could
// hold the first and wait for the second, behind the other's first or behind a
// waiter that waits for both.
func inOrder(ctx context.Context, wants []Want) ([]*wanted, error) {
	all := make([]*wanted, len(wants))
	for i, w := range wants {
		checked, err := w.check(ctx, i)
		if err != nil {
			return nil, err
		}
		all[i] = checked
	}
	slices.SortStableFunc(all, byLock)
	var ordered []*wanted
	for _, w := range all {
		first := sameLock(ordered, w)
		if first == nil {
			ordered = append(ordered, w)
			continue
		}
		if !first.equals(w) {
			return nil, w.fault(fmt.Errorf("%w: wants[%d] is of the same document; "+
				"give one want for it, or equal ones (of one Locker, with equal filters, tags and options)", doclock.ErrInvalidArgument, first.indexes[0]))
		}
		first.add(w)
	}
	return ordered, nil
}

// sameLock is the one of the ordered wants that may be of the same lock as w, or nil.
// Two Lockers may know different fields of the shard key: the documents differ if one
// that both know does.
func sameLock(ordered []*wanted, w *wanted) *wanted {
	for _, other := range slices.Backward(ordered) {
		switch {
		case byID(other, w) != 0:
			return nil
		case agree(other.filter.Pin, w.filter.Pin):
			return other
		}
	}
	return nil
}

// byLock compares the locks that two wants are of.
func byLock(a, b *wanted) int {
	return cmp.Or(byID(a, b), slices.CompareFunc(byName(a.filter.Pin), byName(b.filter.Pin), func(x, y bson.E) int {
		return cmp.Or(strings.Compare(x.Key, y.Key), compareValues(x, y))
	}))
}

// byID compares them without the shard key.
func byID(a, b *wanted) int {
	return cmp.Or(
		strings.Compare(a.locker.engine.Namespace(), b.locker.engine.Namespace()),
		strings.Compare(a.locker.engine.Field, b.locker.engine.Field),
		compareValues(a.filter.Pin[0], b.filter.Pin[0]),
	)
}

// byName are a pin's fields of the shard key, in an order that is the same for all
// Lockers.
func byName(pin engine.Pin) []bson.E {
	return slices.SortedFunc(slices.Values(pin[1:]), func(x, y bson.E) int { return strings.Compare(x.Key, y.Key) })
}

// agree reports whether two pins have the same values for the fields that both have.
func agree(a, b engine.Pin) bool {
	return !slices.ContainsFunc(a, func(x bson.E) bool {
		return slices.ContainsFunc(b, func(y bson.E) bool { return x.Key == y.Key && compareValues(x, y) != 0 })
	})
}

func compareValues(x, y bson.E) int {
	return bsonvalue.Compare(x.Value.(bson.RawValue), y.Value.(bson.RawValue))
}
