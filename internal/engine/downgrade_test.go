package engine

import (
	"bytes"
	"testing"

	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// damage is what an outside writer has done to a lock, and what a command makes of it.
type damage struct {
	change  bson.M
	foreign bool
	want    Outcome
}

// inADamagedLock sends a command of a holder who has detached: no operator raises an
// error, and a lock that is not ours stays as it is.
func inADamagedLock(t *testing.T, cases map[string]damage, send func(*peer, Grant) (Answer, error)) {
	t.Helper()
	for name, c := range cases {
		forked(t, name, func(w *world) {
			p := w.peer(relations.Fair())
			g := p.acquire(ann, "write", Granted)
			p.detach(g, Detached)
			w.Change(c.change)
			before := w.Stored()
			got, err := send(p, g)
			if c.foreign {
				if f := AsFailure(err); f.Cause != CauseForeign || !f.Nothing || !bytes.Equal(before, w.Stored()) {
					w.Errorf("%v, %v", f.Cause, err)
				}
			} else if err != nil || got.Outcome != c.want {
				w.Errorf("%v, %v; want %v", got.Outcome, err, c.want)
			}
		})
	}
}

// A damaged lock is downgraded, or stays as it is.
func TestDowngradeInADamagedLock(t *testing.T) {
	t.Parallel()
	inADamagedLock(t, map[string]damage{
		"no fence":             {bson.M{"$unset": bson.M{"lock.fence": 1}}, false, Granted},
		"a null fence":         {bson.M{"$set": bson.M{"lock.fence": nil}}, false, Granted},
		"a text fence":         {bson.M{"$set": bson.M{"lock.fence": "x"}}, true, Lost},
		"another tag":          {bson.M{"$set": bson.M{"lock.tags.x": "y"}}, true, Lost},
		"a tag of no array":    {bson.M{"$set": bson.M{"lock.tags.read": "y"}}, true, Lost},
		"a null tag":           {bson.M{"$set": bson.M{"lock.tags.read": nil}}, false, Granted},
		"no tags":              {bson.M{"$unset": bson.M{"lock.tags": 1}}, false, Lost},
		"null tags":            {bson.M{"$set": bson.M{"lock.tags": nil}}, false, Lost},
		"text for a lock":      {bson.M{"$set": bson.M{"lock": "x"}}, true, Lost},
		"no lock":              {bson.M{"$unset": bson.M{"lock": 1}}, false, Lost},
		"an odd number":        {bson.M{"$set": bson.M{"lock.tags.write.0.n": "many"}}, false, Conflict},
		"an odd time":          {bson.M{"$set": bson.M{"lock.tags.write.0.until": bson.M{}}}, false, Granted},
		"an odd owner":         {bson.M{"$set": bson.M{"lock.tags.write.0.owner": bson.A{"$x"}}}, false, Granted},
		"no owner":             {bson.M{"$unset": bson.M{"lock.tags.write.0.owner": 1}}, false, Granted},
		"an unknown empty tag": {bson.M{"$set": bson.M{"lock.tags.x": bson.A{}}}, false, Granted},
	}, func(p *peer, g Grant) (Answer, error) {
		g.Key = key
		return p.Downgrade(p.Context(), g, 1, Request{Tag: "read", ID: bob})
	})
}
