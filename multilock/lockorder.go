package multilock

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/bsonvalue"
	"github.com/doclock/doclock/internal/engine"
	"go.mongodb.org/mongo-driver/v2/bson"
)

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
	for i, w := range all {
		if i == 0 || byLock(all[i-1], w) != 0 {
			ordered = append(ordered, w)
			continue
		}
		first := ordered[len(ordered)-1]
		if !first.equals(w) {
			return nil, w.fault(fmt.Errorf("%w: wants[%d] is of the same document; give one want for it, or equal ones (of one Locker, with equal filters, tags and options)", doclock.ErrInvalidArgument, first.indexes[0]))
		}
		first.add(w)
	}
	return ordered, nil
}

// byLock compares the locks that two wants are of.
func byLock(a, b *wanted) int {
	return cmp.Or(
		strings.Compare(a.locker.engine.Namespace(), b.locker.engine.Namespace()),
		strings.Compare(a.locker.engine.Field, b.locker.engine.Field),
		comparePins(a.filter.Pin, b.filter.Pin),
	)
}

func comparePins(a, b engine.Pin) int {
	return slices.CompareFunc(a, b, func(x, y bson.E) int {
		return bsonvalue.Compare(x.Value.(bson.RawValue), y.Value.(bson.RawValue))
	})
}
