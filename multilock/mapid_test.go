package multilock_test

import (
	"testing"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// A Go map has no order, and so names another document each time. Every call that takes
// a filter refuses it, before anything is sent. internal/engine has what is a map.
func TestAMapNamesNoDocument(t *testing.T) {
	virtual(t, func(p *place) {
		coll, w := p.watched()
		l := p.locker(coll, relations.WritePreferring())
		token := p.detach(p.try(l, "write"))
		id := doclock.ID(bson.M{"group": "mail", "name": "nightly"})
		named := fault{doclock.ErrInvalidArgument, []string{"bson.D"}}
		before := w.Count()
		_, all := multilock.AcquireAll(p.Context(), l.Want(id, "write"))
		_, inspected := admin.Inspect(p.Context(), coll, id)
		var listed error
		for _, err := range admin.Entries(p.Context(), coll, admin.Query{}, admin.Within(id)) {
			listed = err
		}
		for name, err := range map[string]error{
			"TryAcquire": errOf(l.TryAcquire(p.Context(), id, "write")),
			"Acquire":    errOf(l.Acquire(p.Context(), id, "write", doclock.MaxWait(0))),
			"claim":      errOf(l.Acquire(p.Context(), id, "write", doclock.SkipLocked(), doclock.MaxWait(0))),
			"Enqueue":    errOf(l.Enqueue(p.Context(), id, "write")),
			"Do":         l.Do(p.Context(), id, "write", nil),
			"Resume":     errOf(l.Resume(p.Context(), id, token)),
			"Touch":      l.Touch(p.Context(), id, token),
			"AcquireAll": all,
			"Inspect":    inspected,
			"Entries":    listed,
		} {
			named.check(p, name, err)
		}
		if n := w.Count() - before; n > 0 {
			p.Errorf("%d commands were sent", n)
		}
	})
}
