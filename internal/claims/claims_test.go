package claims

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Whatever claims meet, each gets a document within the longest pause, or sees the end of its context. A claim that nobody
// wakes is a deadlock in virtual time.
func TestEachClaimGetsADocument(t *testing.T) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			const documents = 12
			s := newServer(seed, documents)
			for _, d := range s.docs {
				d.free = s.below(5 * time.Second)
			}
			all := New(Config{Now: s.now, Rand: s.rand})
			var claimants sync.WaitGroup
			for range documents {
				claimants.Go(func() {
					time.Sleep(s.below(3 * time.Second))
					if _, err := s.claim(t.Context(), all, Request{Asks: true}); err != nil {
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

// A claim that is alone never looks, and remembers none of its documents.
func TestALoneClaimantRemembersNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(1, 1)
		all := New(Config{Now: s.now, Rand: s.rand})
		for i := range 100 {
			w := all.Enter("", Request{Asks: true})
			if step, err := all.Await(t.Context(), w); err != nil || step.Kind != Ask {
				t.Fatal(step, err)
			}
			all.Settle(w, Granted, string(rune(i)))
			if n := len(all.queues[""].window.taken); n > 0 {
				t.Fatalf("%d documents are remembered", n)
			}
			all.Leave(w)
		}
	})
}

// A claim ends with "none is free" only if no document was free all the time. A claim of
// unknown outcome and a claimant that leaves prove nothing about their documents.
func TestNoneMeansThatNoDocumentWasFree(t *testing.T) {
	var none atomic.Int64
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(seed, 6)
			s.fails = 5
			s.docs[0].unfit = true
			var group sync.WaitGroup
			for range 2 {
				all := New(Config{Now: s.now, Rand: s.rand})
				for range 6 {
					group.Go(func() {
						for range 20 {
							time.Sleep(s.below(4 * time.Millisecond))
							begun := s.now()
							got, err := s.claim(t.Context(), all, Request{Once: true, Asks: true})
							switch {
							case errors.Is(err, errNone):
								none.Add(1)
								if n := s.idle(begun); n > 0 {
									t.Errorf("seed %d: %d documents were free all the time", seed, n)
								}
							case err == nil:
								time.Sleep(s.below(4 * time.Millisecond))
								s.release(got.document, false)
							}
						}
					})
				}
			}
			group.Wait()
		})
	}
	if none.Load() == 0 {
		t.Error("no claim has ended without a free document")
	}
}

// All claims of the process pass over a document that can't take the lock, and try it again after a
// while. A claimant that has met one doesn't wait.
func TestUnfitDocumentsArePassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(1, 40)
		for _, d := range s.docs[:30] {
			d.unfit = true
		}
		all := New(Config{Now: s.now, Rand: s.rand})
		for i, want := range []struct{ rank, unfit int }{{30, 31}, {31, 0}, {32, 0}} { // the first one asks, too
			got, err := s.claim(t.Context(), all, Request{Asks: i == 0})
			if err != nil || got.rank != want.rank || got.unfit != want.unfit {
				t.Fatalf("document %d after %d unfit ones, %v", got.rank, got.unfit, err)
			}
		}
		time.Sleep(unfitFor)
		if got, err := s.claim(t.Context(), all, Request{}); err != nil || got.unfit != 30 {
			t.Fatalf("after %d unfit ones, %v", got.unfit, err)
		}
		time.Sleep(unfitFor)
		for _, d := range s.docs[30:] {
			d.free = time.Duration(1<<63 - 1)
		}
		if got, err := s.claim(t.Context(), all, Request{}); !errors.Is(err, errNone) || got.unfit != 30 {
			t.Errorf("after %d unfit ones: %v", got.unfit, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got, err := s.claim(ctx, all, Request{}); !errors.Is(err, context.DeadlineExceeded) || got.unfit != 0 {
			t.Errorf("a claim that met none: %d, %v", got.unfit, err)
		}
	})
}
