package hammer

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/proptest/history"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// drawTerms draws the terms of an acquire.
func (a *acquired) drawTerms() {
	if !a.document.Terms {
		return
	}
	ttl := time.Duration(a.document.TTL) * time.Millisecond
	switch a.rng.IntN(4) {
	case 0:
		a.terms.TTL = 2 * ttl
	case 1:
		a.terms.Least = (ttl/2 + time.Duration(a.rng.Int64N(int64(ttl)))).Truncate(time.Millisecond)
	}
}

// option sets terms that are shorter than the public options allow.
func (a *acquired) option(cfg *engine.AcquireConfig) error {
	cfg.Terms = a.terms
	return nil
}

// claim asks for any of the documents that are claimed. Which one it is shows in
// the lease.
func (a *acquired) claim() {
	asked := a.document
	a.document = history.Document{}
	a.do(history.Claim, "", func() (err error) {
		ctx, cancel := a.impatient()
		defer cancel()
		a.lease, err = a.locker.TryAcquire(ctx, bson.M{"name": jobRules}, a.tag, doclock.SkipLocked(), doclock.Sort(bson.D{{Key: "_id", Value: a.rng.IntN(2)*2 - 1}}))
		if a.lease == nil {
			return err
		}
		for _, d := range a.Documents {
			if d.ID == a.lease.DocumentID().StringValue() {
				asked = d
			}
		}
		a.document = asked
		return err
	})
}

// token is a token and the terms of the leases that it names.
type token struct {
	text  string
	terms engine.Terms
}

// tokens are those that a worker's clients have detached, by document. They are
// used again and again.
type tokens struct {
	mu    sync.Mutex
	known map[string][]*token
}

const mostTokens = 4

func (t *tokens) add(document string, added *token) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil {
		t.known = map[string][]*token{}
	}
	all := append(t.known[document], added)
	t.known[document] = all[max(0, len(all)-mostTokens):]
}

// takeToken draws one of the document's tokens, most often the last.
func (a *acquired) takeToken() bool {
	a.tokens.mu.Lock()
	defer a.tokens.mu.Unlock()
	known := a.tokens.known[a.document.ID]
	if len(known) == 0 {
		return false
	}
	n := len(known) - 1
	if a.rng.IntN(4) == 0 {
		n = a.rng.IntN(len(known))
	}
	a.token = known[n]
	return true
}

// useToken resumes the lease, or lets its entry live on.
func (a *acquired) useToken() {
	a.terms = a.token.terms
	if a.rng.IntN(4) == 0 {
		a.do(history.Touch, "", func() error {
			ctx, cancel := a.impatient()
			defer cancel()
			return a.locker.Touch(ctx, a.token.text)
		})
		return
	}
	a.do(history.Resume, "", func() (err error) {
		ctx, cancel := a.impatient()
		defer cancel()
		a.lease, err = a.locker.Resume(ctx, a.token.text)
		return err
	})
}

// detach leaves the lease to those who use its token.
func (a *acquired) detach() {
	a.do(history.Detach, "", func() error {
		ctx, cancel := a.impatient()
		defer cancel()
		text, err := a.lease.Detach(ctx)
		if text != "" {
			a.tokens.add(a.document.ID, &token{text, a.terms})
		}
		return err
	})
}

// downgrade changes the lease to another tag, if the rules let it.
func (a *acquired) downgrade() {
	tags := slices.Sorted(maps.Keys(a.document.Rules))
	to := tags[a.rng.IntN(len(tags))]
	a.do(history.Downgrade, "", func() error {
		ctx, cancel := a.impatient()
		defer cancel()
		next, err := a.lease.Downgrade(ctx, to)
		if err == nil {
			a.lease, a.terms.Least = next, 0
		}
		return err
	})
}
