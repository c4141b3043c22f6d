package machine

import (
	"cmp"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/proptest/model"
	"pgregory.net/rapid"
)

// drawTerms draws the terms of an acquire: often the Locker's own.
func drawTerms(t *rapid.T) engine.Terms {
	if rapid.Bool().Draw(t, "the Locker's terms") {
		return engine.Terms{}
	}
	return engine.Terms{
		TTL:   ms(rapid.SampledFrom([]int64{0, 1000, 30_000}).Draw(t, "own TTL")),
		Owner: rapid.SampledFrom([]string{"", "a job", "$$e.id"}).Draw(t, "own owner"),
		Least: ms(rapid.SampledFrom([]int64{0, 1, 5000, 50_000}).Draw(t, "hold at least")),
		Most:  ms(rapid.SampledFrom([]int64{0, 0, 2000, 60_000}).Draw(t, "hold at most")),
	}
}

// sends is the request of an asker as the engine sends it.
func (m *engineMachine) sends(t *rapid.T, a *asker) engine.Request {
	return engine.Request{Tag: string(a.tag), ID: m.uuids[a.id], Terms: a.own, Document: rapid.Bool().Draw(t, "document")}
}

// request is the same for the model.
func (a *asker) request() model.Request {
	r := a.terms
	r.Tag, r.ID = a.tag, a.id
	r.TTL = cmp.Or(a.own.TTL.Milliseconds(), r.TTL)
	if most := a.own.Most.Milliseconds(); most > 0 {
		r.TTL = min(r.TTL, most)
	}
	r.Owner = cmp.Or(a.own.Owner, r.Owner)
	r.Hold = a.own.Least.Milliseconds()
	return r
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
