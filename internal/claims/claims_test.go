package claims

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/waitqueue"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// server has documents that are locked until a time each.
type server struct {
	mu    sync.Mutex
	rng   *rand.Rand
	begun time.Time
	free  []time.Duration // by document
	pins  []engine.Pin
}

func newServer(seed uint64, documents int) *server {
	s := &server{rng: rand.New(rand.NewPCG(seed, 2)), begun: time.Now(), free: make([]time.Duration, documents)}
	for i := range documents {
		_, data, _ := bson.MarshalValue(int64(i))
		s.pins = append(s.pins, engine.Pin{{Key: "_id", Value: bson.RawValue{Type: bson.TypeInt64, Value: data}}})
		s.free[i] = s.below(5 * time.Second)
	}
	return s
}

func (s *server) now() time.Duration { return time.Since(s.begun) }

func (s *server) rand(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(n)
}

func (s *server) below(d time.Duration) time.Duration { return time.Duration(s.rand(int(d))) }

// first are the first free documents.
func (s *server) first(limit int) (found []engine.Pin) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, at := range s.free {
		if at <= s.now() && len(found) < limit {
			found = append(found, s.pins[i])
		}
	}
	return found
}

// lock locks a document for ever, or is refused.
func (s *server) lock(i int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free[i] > s.now() {
		return false
	}
	s.free[i] = time.Hour
	return true
}

// Whatever claims meet, each gets a document within the longest pause, or sees the end of its context. A claim that nobody
// wakes is a deadlock in virtual time.
func TestEachClaimGetsADocument(t *testing.T) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			const documents = 12
			s := newServer(seed, documents)
			all := New(Config{Now: s.now, Rand: s.rand})
			index := map[string]int{}
			for i, pin := range s.pins {
				index[waitqueue.Key(pin)] = i
			}
			var claimants sync.WaitGroup
			for range documents {
				claimants.Go(func() {
					time.Sleep(s.below(3 * time.Second))
					if err := s.claim(t.Context(), all, index); err != nil {
						t.Errorf("seed %d: %v", seed, err)
					}
				})
			}
			claimants.Wait()
			if took := s.now(); took > 5*time.Second+2*longestPause {
				t.Errorf("seed %d: the last claim was granted after %v", seed, took)
			}
		})
	}
}

// claim does what a claim of multilock does.
func (s *server) claim(ctx context.Context, all *Claims, index map[string]int) error {
	w := all.Enter("", Request{Asks: true})
	defer all.Leave(w)
	for {
		turn, err := all.Await(ctx, w)
		if err != nil {
			return err
		}
		time.Sleep(s.below(5 * time.Millisecond)) // the command's way
		var document int
		switch turn.Kind {
		case Look:
			found := s.first(turn.Limit)
			time.Sleep(s.below(5 * time.Millisecond))
			all.Found(w, found)
			continue
		case Try:
			document = index[waitqueue.Key(turn.Candidate)]
		case None:
			return errors.New("a claim that waits was told that nothing is free")
		}
		granted := s.lock(document)
		time.Sleep(s.below(20 * time.Millisecond))
		if granted {
			all.Settle(w, Granted, waitqueue.Key(s.pins[document]))
			return nil
		}
		all.Settle(w, Refused, waitqueue.Key(s.pins[document]))
	}
}

// A claim that is alone never looks, and remembers none of its documents.
func TestALoneClaimantRemembersNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(1, 1)
		all := New(Config{Now: s.now, Rand: s.rand})
		for i := range 100 {
			w := all.Enter("", Request{Asks: true})
			if turn, err := all.Await(t.Context(), w); err != nil || turn.Kind != Ask {
				t.Fatal(turn, err)
			}
			all.Settle(w, Granted, string(rune(i)))
			if n := len(all.queues[""].window.settled); n > 0 {
				t.Fatalf("%d documents are remembered", n)
			}
			all.Leave(w)
		}
	})
}
