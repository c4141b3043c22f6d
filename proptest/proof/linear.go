package proof

import (
	"cmp"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/doclock/doclock/proptest/history"
	"github.com/doclock/doclock/proptest/tally"
)

// PropertyLinear is counted once per document.
const PropertyLinear = "each document's lock is linearizable: one order of its commands explains all images"

// linearizable asks porcupine for an order of each document's commands. The
// order must agree with real time, and every answer must be the one that a
// plain sequential lock would give.
func linearizable(h *history.History, t *tally.Tally, timeout time.Duration) {
	for _, o := range h.Linearizable() {
		model, operations := lockModel(o, h.Commands)
		t.Checked(PropertyLinear, 1)
		switch porcupine.CheckOperationsTimeout(model, operations, timeout) {
		case porcupine.Illegal:
			t.Violated(PropertyLinear, "document %s (%s): no order explains its %d commands; all of them: %s", o.Document.ID, o.Document.Name, len(operations), h.Keep())
		case porcupine.Unknown:
			t.Seen("documents whose order was not found in time", 1)
		}
	}
}

// lock is the state: the content of the document, with the least known
// expiries. It is immutable.
type lock struct {
	fence   int64
	entries []history.Entry // by seq
}

func (l lock) find(match func(history.Entry) bool) (history.Entry, bool) {
	i := slices.IndexFunc(l.entries, match)
	if i < 0 {
		return history.Entry{}, false
	}
	return l.entries[i], true
}

// guarded is the entry that the command's guard matches.
func (l lock) guarded(step history.Step) (history.Entry, bool) {
	return l.find(func(e history.Entry) bool { return e.ID == step.ID && (step.Fence == 0 || e.Fence == step.Fence) })
}

func (l lock) without(id string) lock {
	return lock{l.fence, slices.DeleteFunc(slices.Clone(l.entries), func(e history.Entry) bool { return e.ID == id })}
}

func (l lock) with(e history.Entry) lock {
	next := lock{max(l.fence, e.Seq, e.Fence), append(l.without(e.ID).entries, e)}
	slices.SortFunc(next.entries, func(a, b history.Entry) int { return cmp.Compare(a.Seq, b.Seq) })
	return next
}

func equal(a, b any) bool {
	x, y := a.(lock), b.(lock)
	return x.fence == y.fence && slices.Equal(x.entries, y.entries)
}

// sequential is one document's lock, as a single client would see it. It
// decides by the images: a step is possible if its image is the result of the
// command in the previous state.
type sequential struct {
	document history.Document
	hidden   bool // see history.Object

	// written are the guarded writes that were, or may have been, applied: a
	// repeat finds its write done.
	written map[numbered]bool
}

type numbered struct {
	id string
	k  int64
}

func lockModel(o history.Object, sent []history.Command) (porcupine.Model, []porcupine.Operation) {
	s := sequential{o.Document, o.Hidden, map[numbered]bool{}}
	for _, c := range sent {
		if c.Kind == history.CommandWrite && (c.Answered == 0 || c.Matched) {
			s.written[numbered{c.ID, c.K}] = true
		}
	}
	var operations []porcupine.Operation
	for i, step := range o.Steps {
		operations = append(operations, porcupine.Operation{ClientId: i, Input: step, Output: step.Maybe, Call: step.Call, Return: step.Return})
	}
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{lock{}} },
		Step: func(state, input, _ any) []any {
			next := s.step(state.(lock), input.(history.Step))
			states := make([]any, len(next))
			for i, l := range next {
				states[i] = l
			}
			return states
		},
		Equal: equal,
	}
	return model.ToModel(), operations
}

// step lists the possible states of the lock after the command.
func (s sequential) step(l lock, step history.Step) []lock {
	if step.Maybe {
		return append([]lock{l}, s.effect(l, step)...) // or it was never executed
	}
	switch step.Kind {
	case history.CommandAcquire, history.CommandConfirm, history.CommandRead:
		if step.Image == nil { // no document
			if l.fence == 0 {
				return []lock{l}
			}
			return nil
		}
		return s.image(l, step)
	default:
		return s.guarded(l, step)
	}
}

// prunable reports whether a join without an answer may have pruned the entry.
func (s sequential) prunable(e history.Entry, step history.Step) bool {
	return s.hidden && e.Expires*int64(time.Millisecond) <= step.Return
}

// image accepts the image if it is the result of the command in the state.
func (s sequential) image(l lock, step history.Step) []lock {
	img := step.Image
	next := lock{fence: img.Fence, entries: slices.Clone(img.Entries)}
	for i := range next.entries {
		next.entries[i].N = 0 // the document's log is used to check writes
	}
	slices.SortFunc(next.entries, func(a, b history.Entry) int { return cmp.Compare(a.Seq, b.Seq) })
	isOwn := func(e history.Entry) bool { return e.ID == step.ID }
	was, before := l.find(isOwn)
	own, after := next.find(isOwn)
	joined := step.Kind == history.CommandAcquire && after && (!before || was.Seq != own.Seq)
	granted := step.Kind == history.CommandConfirm && after && before && was.Fence == 0 && own.Fence != 0
	prunes := joined || step.Kind == history.CommandConfirm && after

	// An earlier entry is still present, unless it was pruned; a present entry
	// was there before.
	for _, e := range l.entries {
		if isOwn(e) && prunes {
			continue
		}
		still, there := next.find(func(n history.Entry) bool { return n.ID == e.ID && n.Seq == e.Seq })
		switch {
		case there:
			if still.Fence != e.Fence && !isOwn(e) || still.Expires < e.Expires {
				return nil
			}
		case s.prunable(e, step):
		case !prunes || e.Expires > img.Now:
			return nil
		}
	}
	for _, e := range next.entries {
		if _, there := l.find(func(n history.Entry) bool { return n.ID == e.ID && n.Seq == e.Seq }); !there && !(isOwn(e) && joined) {
			return nil
		}
	}

	// The fences.
	number := max(l.fence+1, img.Now)
	if step.Inherits {
		number = l.fence + 1
	}
	switch {
	case joined:
		if before && was.Seq != own.Seq && was.Expires > img.Now {
			return nil
		}
		if own.Seq != img.Fence || own.Fence != 0 && own.Fence != own.Seq || !s.is(img.Fence, number) {
			return nil
		}
	case granted:
		if own.Seq != was.Seq || own.Fence != img.Fence || !s.is(img.Fence, number) {
			return nil
		}
	case step.Kind == history.CommandConfirm && after != before && !(before && s.prunable(was, step)):
		return nil
	case !s.is(img.Fence, l.fence):
		return nil
	}
	if (joined || granted) && own.Fence != 0 && s.blocked(next, own) {
		return nil
	}
	return []lock{next}
}

// is compares fences: a hidden join may have taken some.
func (s sequential) is(got, want int64) bool { return got == want || s.hidden && got > want }

// blocked reports whether held or earlier entries block this one.
func (s sequential) blocked(l lock, own history.Entry) bool {
	counts := map[string]int{}
	for _, e := range l.entries {
		if e.ID != own.ID && (e.Fence != 0 || e.Seq < own.Seq) {
			counts[e.Tag]++
		}
	}
	for tag, n := range counts {
		if r, respects := s.document.Rules[own.Tag][tag]; respects && n > r.Allow {
			return true
		}
	}
	return false
}

// guarded handles the commands whose answer is whether they matched.
func (s sequential) guarded(l lock, step history.Step) []lock {
	own, there := l.guarded(step)
	if step.Matched {
		if !there {
			return nil
		}
		if step.Own != nil && (own.Seq != step.Own.Seq || own.Fence != step.Own.Fence) {
			return nil
		}
		return s.effect(l, step)
	}
	switch {
	case !there || s.written[numbered{step.ID, step.K}]:
		return []lock{l}
	case s.prunable(own, step):
		return []lock{l.without(step.ID)}
	default:
		return nil
	}
}

// effect lists the states after an executed command.
func (s sequential) effect(l lock, step history.Step) []lock {
	own, there := l.guarded(step)
	switch step.Kind {
	case history.CommandRelease, history.CommandWriteAndRelease:
		if there {
			return []lock{l.without(step.ID)}
		}
	case history.CommandWrite:
		if there {
			return []lock{l}
		}
	case history.CommandRenew:
		if there {
			least := step.Call/int64(time.Millisecond) + s.document.TTL + s.document.Tolerance
			own.Expires = max(own.Expires, least-1)
			return []lock{l.with(own)}
		}
	case history.CommandAcquire, history.CommandConfirm:
		return s.unseen(l, step)
	}
	return nil
}

// unseen is a join or a confirm without an answer: it made an entry that later
// images show. Entries that it may have pruned are missing in them; see hidden.
func (s sequential) unseen(l lock, step history.Step) []lock {
	entered := *step.Possible
	was, there := l.find(func(e history.Entry) bool { return e.ID == entered.ID })
	number := entered.Seq
	if step.Kind == history.CommandConfirm {
		if !there || was.Seq != entered.Seq || was.Fence != 0 {
			return nil
		}
		number = entered.Fence
	} else if there && was.Seq == entered.Seq {
		return nil // a repeat
	}
	if number <= l.fence {
		return nil
	}
	entered.Expires = entered.Since // at least
	if there {
		entered.Expires = was.Expires
	}
	return []lock{l.with(entered)}
}
