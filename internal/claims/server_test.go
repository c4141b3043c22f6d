package claims

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/waitqueue"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// server has documents in the order of their priority. It is made in a bubble of
// [synctest].
type server struct {
	mu    sync.Mutex
	rng   *rand.Rand
	begun time.Time
	docs  []*document
	byKey map[string]*document
	fails int // one claim in so many ends before its command's answer, and one try in so many fails
}

// document is free from a time on, until it is locked.
type document struct {
	pin       engine.Pin
	rank      int
	free      time.Duration
	done      bool // it doesn't match any more
	unfit     bool // it can't take the lock
	overtaken int  // how many of a higher rank were locked while it was free
}

func newServer(seed uint64, documents int) *server {
	s := &server{rng: rand.New(rand.NewPCG(seed, 2)), begun: time.Now(), byKey: map[string]*document{}}
	for i := range documents {
		_, data, _ := bson.MarshalValue(int64(i))
		d := &document{pin: engine.Pin{{Key: "_id", Value: bson.RawValue{Type: bson.TypeInt64, Value: data}}}, rank: i}
		s.docs, s.byKey[waitqueue.Key(d.pin)] = append(s.docs, d), d
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

// way is how long a command is on its way to the server, or back.
func (s *server) way() time.Duration { return time.Millisecond/4 + s.below(time.Millisecond/2) }

// isFree reports whether the document is free, or has been since that time.
func (s *server) isFree(d *document, since time.Duration) bool { return !d.done && d.free <= since }

// first are the first free documents.
func (s *server) first(limit int) (found []engine.Pin) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.docs {
		if s.isFree(d, s.now()) && len(found) < limit {
			found = append(found, d.pin)
		}
	}
	return found
}

// idle are the documents that have been free since that time.
func (s *server) idle(since time.Duration) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.docs {
		if s.isFree(d, since) && !d.unfit {
			n++
		}
	}
	return n
}

// lock locks a document, or the first that matches, until it is released. off is the
// number of better ones that were free.
func (s *server) lock(d *document) (locked *document, outcome Outcome, off int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d == nil {
		i := slices.IndexFunc(s.docs, func(d *document) bool { return !d.done })
		if i < 0 {
			return nil, Missing, 0
		}
		d = s.docs[i]
	}
	switch {
	case d.unfit:
		return d, Unfit, 0
	case d.done:
		return d, Missing, 0
	case d.free > s.now():
		return d, Refused, 0
	}
	for _, better := range s.docs[:d.rank] {
		if s.isFree(better, s.now()) {
			better.overtaken++
			off++
		}
	}
	d.free = time.Duration(1<<63 - 1)
	return d, Granted, off
}

func (s *server) release(d *document, done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d.free, d.done = s.now(), done
}

// errNone is the end of a claim that finds nothing free.
var errNone = errors.New("none is free")

// errLeft is the end of a claim that leaves before its command is executed.
var errLeft = errors.New("it has left")

// claimed is what a claim has brought.
type claimed struct {
	*document
	off      int // better ones that were free at the grant
	commands int
	unfit    int // documents that it has met
}

// claim does what a claim of multilock does. On its way to the server and back a command takes half
// a millisecond to a millisecond and a half, and a look-up twice that.
func (s *server) claim(ctx context.Context, all *Claims, r Request) (got claimed, err error) {
	w := all.Enter("", r)
	defer all.Leave(w)
	for {
		step, err := all.Await(ctx, w)
		if err != nil {
			return got, err
		}
		if step.Kind == None {
			return got, errNone
		}
		got.commands++
		way := s.way()
		if step.Kind == Look {
			time.Sleep(2 * way)
			found := s.first(step.Limit)
			time.Sleep(2 * way)
			all.Found(w, found)
			continue
		}
		time.Sleep(way)
		if s.fails > 0 && s.rand(s.fails) == 0 {
			if s.rand(2) == 0 {
				return got, errLeft
			}
			time.Sleep(way)
			all.Settle(w, Failed, "")
			continue
		}
		var outcome Outcome
		var key string
		got.document, outcome, got.off = s.lock(s.byKey[waitqueue.Key(step.Candidate)])
		time.Sleep(way)
		if outcome == Unfit {
			got.unfit++
		}
		if got.document != nil {
			key = waitqueue.Key(got.pin)
		}
		all.Settle(w, outcome, key)
		if outcome == Granted {
			return got, nil
		}
	}
}

// percentile is that of the numbers.
func percentile[N cmp.Ordered](of []N, p int) N {
	slices.Sort(of)
	return of[(len(of)-1)*p/100]
}
