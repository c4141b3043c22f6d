package cases

import (
	"context"
	"fmt"
	"time"

	"github.com/doclock/doclock/bench/subjects"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// adders are how many there are at a time.
var adders = []int{1, 8, 64}

// runContacts has 1, 8 and 64 goroutines of one process add contacts to one category.
func runContacts(ctx context.Context, r *Run, all []*subjects.Subject) error {
	name := r.now.Name
	for _, adders := range adders {
		r.now.Name = fmt.Sprintf("%s/adders=%d", name, adders)
		for _, s := range all {
			if err := s.MakeContacts(ctx); err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
			if err := warmUp(ctx, s, adders); err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
		}
		err := r.inTurn(0, pick(r, 5, 2), all, func(s *subjects.Subject, turn int) (Round, error) {
			return addContacts(ctx, s, adders, fmt.Sprintf("%s %d", r.key(s), turn), pick(r, 3*time.Second, time.Second))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// addContacts is a round. Each has a category of its own.
func addContacts(ctx context.Context, s *subjects.Subject, adders int, category string, length time.Duration) (Round, error) {
	if err := s.Make(ctx, category); err != nil {
		return Round{}, err
	}
	add := func(ctx context.Context) error { return s.Add(ctx, category) }
	round, completed, err := window(ctx, adders, length, s, add)
	if err != nil {
		return round, err
	}
	there, err := s.Contacts().CountDocuments(ctx, bson.M{"category": category})
	if err == nil && int(there) < completed {
		err = fmt.Errorf("%d of %d contacts are lost", completed-int(there), completed)
	}
	return round, err
}
