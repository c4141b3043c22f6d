package multilock

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/bsonvalue"
	"github.com/doclock/doclock/internal/engine"
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

// Want describes a lease for [AcquireAll] and [DoAll], as its arguments describe
// one to [Locker.Acquire]. The filter must demand an equal _id at its top level,
// and in a sharded collection equal fields of the shard key; it may demand more.
// Want checks nothing and sends nothing: AcquireAll does.
func (l *Locker) Want(filter any, tag string, opts ...doclock.AcquireOption) Want {
	return Want{locker: l, filter: filter, tag: tag, opts: slices.Clone(opts)}
}

// WantError says which of several wants could not be had. It wraps the error
// that a single acquire of it would return, which is a [doclock.ErrNotAcquired].
type WantError struct {
	Index      int           // of the want, among the arguments; of equal wants the first
	Collection string        // as in "shop.accounts"; "" if the want has no Locker
	DocumentID bson.RawValue // the zero value if the filter demands no equal _id
	Tag        string

	err error
}

// Error says which want it is, and why it could not be had.
func (e *WantError) Error() string {
	what := fmt.Sprintf("doclock: wants[%d]", e.Index)
	if e.Collection != "" {
		what += fmt.Sprintf(", %q on a document of %s", e.Tag, e.Collection)
	}
	if !e.DocumentID.IsZero() {
		what = fmt.Sprintf("doclock: wants[%d], %q on document %s of %s", e.Index, e.Tag, bsonvalue.Readable(e.DocumentID), e.Collection)
	}
	return oneline.Because(errors.New(what), e.err).Error()
}

// Unwrap returns what a single acquire would return.
func (e *WantError) Unwrap() error { return e.err }

// wanted is a want whose arguments were checked.
type wanted struct {
	*acquisition
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
		return nil, &WantError{Index: index, Collection: w.locker.engine.Namespace(), DocumentID: w.document(), Tag: w.tag, err: notAcquired(err)}
	}
	checked.acquisition = a
	if a.filter.Pin == nil {
		return nil, checked.fault(fmt.Errorf("%w: its filter must demand an equal _id at its top level, and in a sharded collection equal fields of the shard key: several documents are locked in the order of their _id", doclock.ErrInvalidArgument))
	}
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
	e := &WantError{Index: w.indexes[0], err: notAcquired(err)}
	if w.acquisition != nil {
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
