package multilock_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Whatever a queue has in it, and whatever the commands meet: each good letter is sent once, and its claims don't overlap. "None
// is free" is said only if each letter that is left was locked, or can't take the lock, at some moment of the call. (After a
// fault a letter may be locked for nobody, until the clean-up.)
func TestClaimsOfAnyQueue(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		inBubble(t, func(p *place) {
			draw := rand.New(rand.NewPCG(seed, 26))
			unfit, good, processes := draw.IntN(40), 1+draw.IntN(30), 1+draw.IntN(3)
			p.letters(unfit, good)
			faults := []func(){
				func() { p.mem.LoseReplies(1, locktest.Acquires) },
				func() { p.mem.LoseRequests(1, locktest.Acquires) },
				func() {
					p.mem.Delay(1+draw.IntN(3), time.Duration(draw.IntN(5000))*time.Millisecond, locktest.Acquires)
				},
				func() { p.mem.Fail(1, mongo.CommandError{Code: 50, Message: "time limit"}, locktest.Acquires) },
				func() { p.mem.Fail(1, mongo.CommandError{Code: 112, Message: "conflict"}, locktest.Acquires) },
				func() { p.mem.Fail(1, mongo.CommandError{Code: 424242, Message: "?"}) },
				func() {},
			}
			var lock sync.Mutex
			free := make([]time.Time, unfit+good) // since when each is free; zero while it is locked, or at its end
			for i := range free[unfit:] {
				free[unfit+i] = time.Now()
			}
			sent := map[int64]int{}
			all := sync.WaitGroup{}
			for range processes {
				l := p.plain(relations.Exclusive(), doclock.TTL(time.Minute), doclock.AttemptTimeout(time.Second))
				for range 1 + draw.IntN(3) {
					own := rand.New(rand.NewPCG(seed, draw.Uint64()))
					all.Go(func() {
						for range 200 {
							begun := time.Now()
							lock.Lock()
							if seed%2 == 1 && own.IntN(4) == 0 {
								faults[own.IntN(len(faults))]()
							}
							lock.Unlock()
							letter, err := l.Acquire(p.Context(), bson.M{"due": bson.M{"$lte": begun}}, "write", doclock.SkipLocked(),
								doclock.Sort(bson.D{{Key: "due", Value: 1}}), doclock.MaxWait(time.Duration(own.IntN(2))*time.Second))
							if err != nil {
								lock.Lock()
								for i, since := range free {
									if seed%2 == 0 && errors.Is(err, doclock.ErrNotFound) && !since.IsZero() && since.Before(begun) {
										p.Errorf("seed %d: %d is free since %v: %v", seed, i, since, err)
									}
								}
								done := len(sent) == good
								lock.Unlock()
								if done {
									return
								}
								time.Sleep(time.Duration(own.IntN(3000)) * time.Millisecond)
								continue
							}
							id := letter.DocumentID().AsInt64()
							lock.Lock()
							free[id] = time.Time{}
							sent[id]++
							lock.Unlock()
							time.Sleep(time.Duration(own.IntN(100)) * time.Millisecond)
							ok(p, letter.Delete(p.Context()))
						}
					})
				}
			}
			all.Wait()
			if len(sent) != good {
				p.Errorf("seed %d: %d letters of %d are sent", seed, len(sent), good)
			}
			for id, n := range sent {
				if n != 1 {
					p.Errorf("seed %d: letter %d is sent %d times", seed, id, n)
				}
			}
		})
	}
}
