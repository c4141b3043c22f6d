package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Three programs try a letter that can't be sent, after 1 s, 2 s, 4 s and so on, and
// leave it in the end. They send each of the others once.
func TestLettersAreSentOnceOrPutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const others, programs = 20, 3
		mem := locktest.New()
		documents := []any{bson.M{"to": "nobody", "due": time.Now()}}
		for range others {
			documents = append(documents, bson.M{"to": "Ann", "due": time.Now()})
		}
		letters, err := mem.Collection("letters", documents...)
		check(err)
		begun := time.Now()
		var mu sync.Mutex
		var tries []time.Duration
		sent := 0
		send := func(_ context.Context, l letter) error {
			time.Sleep(time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			if l.To == "nobody" {
				tries = append(tries, time.Since(begun).Truncate(time.Second))
				return errors.New("no such address")
			}
			sent++
			return nil
		}
		var workers sync.WaitGroup
		for range programs {
			workers.Go(func() {
				locks, err := writelock.New(letters)
				check(err)
				for time.Since(begun) < 130*time.Second {
					if err := next(t.Context(), locks, send); errors.Is(err, doclock.ErrNotFound) {
						time.Sleep(100 * time.Millisecond)
					} else {
						check(err)
					}
				}
			})
		}
		workers.Wait()
		want := []time.Duration{0, 1, 3, 7, 15, 31, 63, 127}
		for i := range want {
			want[i] *= time.Second
		}
		var left []struct {
			To    string
			Tries int
			Why   string
		}
		found, err := letters.Find(t.Context(), bson.M{})
		check(err)
		check(found.All(t.Context(), &left))
		if sent != others || !slices.Equal(tries, want) || len(left) != 1 || left[0].Tries != most || left[0].Why != "no such address" {
			t.Errorf("%d sent; tried after %v; left: %+v", sent, tries, left)
		}
	})
}
