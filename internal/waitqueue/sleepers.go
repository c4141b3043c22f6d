package waitqueue

import (
	"container/heap"
	"slices"
	"time"
)

// sleepers are the waiters of a tag that are asleep. Many compatible waiters may ask
// at once, and the queue judges after each answer. So no judgement goes through all of
// them: the time to find, add or remove a waiter grows with the logarithm of their
// number.
type sleepers struct {
	rested  pile    // in the waiters' order
	resting pile    // by the ends of their rests
	news    uint64  // of the view, when those were refused who rest
	sharing [2]pile // those of both that share an entry: without the document, and with it
}

func newSleepers(visits *int) (s sleepers) {
	s.rested = pile{before: (*Waiter).before, visits: visits}
	s.resting = pile{before: func(w, other *Waiter) bool { return w.restsUntil() < other.restsUntil() }, visits: visits}
	for i := range s.sharing {
		s.sharing[i] = pile{before: (*Waiter).before, visits: visits, which: 1}
	}
	return s
}

// add takes a waiter that fell asleep when the view had this news.
func (s *sleepers) add(w *Waiter, news uint64) {
	s.update(news)
	w.pile = &s.rested
	if w.news == news && w.rest > 0 {
		w.pile = &s.resting
	}
	heap.Push(w.pile, w)
	if w.Shared {
		heap.Push(s.sharers(w.Document), w)
	}
}

func (s *sleepers) remove(w *Waiter) {
	heap.Remove(w.pile, w.at[0])
	if w.Shared {
		heap.Remove(s.sharers(w.Document), w.at[1])
	}
}

// first is the first of those that don't rest, or nil.
func (s *sleepers) first(now time.Duration, news uint64) *Waiter {
	s.update(news)
	for w := s.resting.first(); w != nil && w.restsUntil() <= now; w = s.resting.first() {
		s.endRest(w)
	}
	return s.rested.first()
}

// update ends the rests of those that were refused before the news.
func (s *sleepers) update(news uint64) {
	for s.news != news && s.resting.Len() > 0 {
		s.endRest(s.resting.first())
	}
	s.news = news
}

func (s *sleepers) endRest(w *Waiter) {
	heap.Remove(w.pile, w.at[0])
	w.pile = &s.rested
	heap.Push(w.pile, w)
}

func (s *sleepers) sharers(document bool) *pile {
	if document {
		return &s.sharing[1]
	}
	return &s.sharing[0]
}

func (s *sleepers) all() []*Waiter { return slices.Concat(s.rested.waiters, s.resting.waiters) }

// before is the order of the waiters of a tag: those with a place in the document
// come first, by place, and then the others, by arrival.
func (w *Waiter) before(other *Waiter) bool {
	switch taken := w.place.taken(); {
	case taken != other.place.taken():
		return taken
	case taken:
		return w.place.Seq < other.place.Seq
	default:
		return w.order < other.order
	}
}

func (w *Waiter) restsUntil() time.Duration { return w.asked + w.rest }

// pile is a heap of waiters, which know where they are in it.
type pile struct {
	waiters []*Waiter
	before  func(w, other *Waiter) bool
	which   int  // of a waiter's positions
	visits  *int // comparisons, for tests
}

func (p *pile) first() *Waiter {
	if len(p.waiters) == 0 {
		return nil
	}
	return p.waiters[0]
}

// The methods of [heap.Interface].

func (p *pile) Len() int { return len(p.waiters) }

func (p *pile) Less(i, j int) bool {
	*p.visits++
	return p.before(p.waiters[i], p.waiters[j])
}

func (p *pile) Swap(i, j int) {
	p.waiters[i], p.waiters[j] = p.waiters[j], p.waiters[i]
	p.waiters[i].at[p.which], p.waiters[j].at[p.which] = i, j
}

func (p *pile) Push(w any) {
	w.(*Waiter).at[p.which] = len(p.waiters)
	p.waiters = append(p.waiters, w.(*Waiter))
}

func (p *pile) Pop() any {
	last := len(p.waiters) - 1
	w := p.waiters[last]
	p.waiters[last] = nil
	p.waiters = p.waiters[:last]
	return w
}
