package proof

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/doclock/doclock/proptest/history"
	"github.com/doclock/doclock/proptest/tally"
)

// PropertyLinear is counted once a document.
const PropertyLinear = "each document's lock is linearizable: one order of its commands explains all images"

// linearizable asks porcupine for an order of each document's commands that
// agrees with real time and in which every answer is what the lock, a plain
// sequential object, would have said.
func linearizable(h *history.History, t *tally.Tally, timeout time.Duration) {
	for _, o := range h.Linearizable() {
		model, operations := lockModel(o)
		t.Checked(PropertyLinear, 1)
		switch porcupine.CheckOperationsTimeout(model, operations, timeout) {
		case porcupine.Illegal:
			t.Violated(PropertyLinear, "document %s (%s): no order explains its %d commands", o.Document.ID, o.Document.Name, len(operations))
		case porcupine.Unknown:
			t.Seen("documents whose order was not found in time", 1)
		}
	}
}

// lock is the state: what stands in the document, with expiries as known at
// the least. It is immutable.
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

// sequential is one document's lock, as one client alone would see it. It
// judges by the images: a step is possible where its image is what the
// protocol makes of the state before.
type sequential struct {
	document history.Document

	// hidden: some join was never answered nor seen. It may have pruned what
	// had expired, and no image tells.
	hidden bool
}

func lockModel(o history.Object) (porcupine.Model, []porcupine.Operation) {
	s := sequential{document: o.Document}
	var operations []porcupine.Operation
	for i, step := range o.Steps {
		if step.Answered == 0 {
			switch step.Kind {
			case history.CommandAcquire, history.CommandConfirm:
				s.hidden = s.hidden || step.Possible == nil
			case history.CommandRead:
				continue // it has no effect, and no answer
			}
		}
		if step.Image != nil && step.Image.Now == 0 {
			// A stored image: of the first execution, which has a step of its own.
			step.Answered, step.Image, step.Matched = 0, nil, false
			step.Return = math.MaxInt64
		}
		operations = append(operations, porcupine.Operation{ClientId: i, Input: step, Output: step.Answered != 0, Call: step.Call, Return: step.Return})
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
		DescribeOperation: func(input, _ any) string {
			step := input.(history.Step)
			return fmt.Sprintf("%s %s %.8s", step.Kind, step.Tag, step.ID)
		},
		DescribeState: func(state any) string {
			var b strings.Builder
			for _, e := range state.(lock).entries {
				fmt.Fprintf(&b, "%s %.8s %d/%d; ", e.Tag, e.ID, e.Seq, e.Fence)
			}
			return b.String()
		},
	}
	return model.ToModel(), operations
}

// step lists the states that the lock may be in after the command.
func (s sequential) step(l lock, step history.Step) []lock {
	if step.Answered == 0 {
		return append([]lock{l}, s.effect(l, step)...) // or it never was
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

// image accepts the image where it is what the command makes of the state.
func (s sequential) image(l lock, step history.Step) []lock {
	img := step.Image
	next := lock{fence: img.Fence, entries: slices.Clone(img.Entries)}
	slices.SortFunc(next.entries, func(a, b history.Entry) int { return cmp.Compare(a.Seq, b.Seq) })
	isOwn := func(e history.Entry) bool { return e.ID == step.ID }
	was, before := l.find(isOwn)
	own, after := next.find(isOwn)
	joined := step.Kind == history.CommandAcquire && after && (!before || was.Seq != own.Seq)
	granted := step.Kind == history.CommandConfirm && after && before && was.Fence == 0 && own.Fence != 0
	prunes := joined || step.Kind == history.CommandConfirm && after

	// What was there is there, unless it was pruned; what is there was there.
	for _, e := range l.entries {
		if isOwn(e) && (joined || prunes) {
			continue
		}
		still, there := next.find(func(n history.Entry) bool { return n.ID == e.ID && n.Seq == e.Seq })
		switch {
		case there:
			if still.Fence != e.Fence && !isOwn(e) || still.Expires < e.Expires || still.N < e.N {
				return nil
			}
		case s.hidden && e.Expires <= img.Now:
		case !prunes || e.Expires > img.Now:
			return nil
		}
	}
	for _, e := range next.entries {
		if _, there := l.find(func(n history.Entry) bool { return n.ID == e.ID && n.Seq == e.Seq }); !there && !(isOwn(e) && joined) {
			return nil
		}
	}

	// The numbers.
	switch number := max(l.fence+1, img.Now); {
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
	case step.Kind == history.CommandConfirm && after != before:
		return nil
	case !s.is(img.Fence, l.fence):
		return nil
	}
	if (joined || granted) && own.Fence != 0 && s.blocked(next, own) {
		return nil
	}
	return []lock{next}
}

// is compares numbers: a hidden join may have taken some.
func (s sequential) is(got, want int64) bool { return got == want || s.hidden && got > want }

// blocked: held or earlier entries keep this one back.
func (s sequential) blocked(l lock, own history.Entry) bool {
	counts := map[string]int{}
	for _, e := range l.entries {
		if e.ID != own.ID && (e.Fence != 0 || e.Seq < own.Seq) {
			counts[e.Tag]++
		}
	}
	for tag, n := range counts {
		if r, respects := s.document.Table[own.Tag][tag]; respects && n > r.Allow {
			return true
		}
	}
	return false
}

// guarded are the commands whose answer is whether they matched.
func (s sequential) guarded(l lock, step history.Step) []lock {
	own, there := l.find(func(e history.Entry) bool {
		return e.ID == step.ID && (step.Token == 0 || e.Fence == step.Token)
	})
	fresh := step.Kind != history.CommandWrite || own.N < step.K
	if step.Matched {
		if !there || !fresh {
			return nil
		}
		if step.Own != nil && (own.Seq != step.Own.Seq || own.Fence != step.Own.Fence || own.N > step.Own.N) {
			return nil
		}
		return s.effect(l, step)
	}
	switch {
	case !there || !fresh:
		return []lock{l}
	case s.hidden: // pruned by a join that was not seen, if it had expired
		return []lock{l.without(step.ID)}
	default:
		return nil
	}
}

// effect lists what an executed command makes of the state.
func (s sequential) effect(l lock, step history.Step) []lock {
	own, there := l.find(func(e history.Entry) bool {
		return e.ID == step.ID && (step.Token == 0 || e.Fence == step.Token)
	})
	switch step.Kind {
	case history.CommandRelease, history.CommandWriteAndRelease:
		if there {
			return []lock{l.without(step.ID)}
		}
	case history.CommandWrite:
		if there && own.N < step.K {
			own.N = step.K
			return []lock{l.with(own)}
		}
	case history.CommandRenew:
		if there { // its time is not known: the expiry stays as known at the least
			return []lock{l}
		}
	case history.CommandAcquire, history.CommandConfirm:
		return s.unseen(l, step)
	}
	return nil
}

// unseen is a join or a confirm without an answer. Later images show what it
// made; what it pruned shows as well, where it is missing.
func (s sequential) unseen(l lock, step history.Step) []lock {
	own := step.Possible
	if own == nil {
		return nil // hidden
	}
	was, there := l.find(func(e history.Entry) bool { return e.ID == own.ID })
	entered := *own
	number := own.Seq
	switch {
	case step.Kind == history.CommandAcquire && there: // a repeat
		return nil
	case step.Kind == history.CommandConfirm && (!there || was.Seq != own.Seq || own.Fence == 0):
		return nil
	case step.Kind == history.CommandConfirm:
		number = own.Fence
	case own.Fence != own.Seq: // it waited first
		entered.Fence = 0
	}
	if number <= l.fence {
		return nil
	}
	// Which of the expired were pruned depends on the time of the command. The
	// number is that time, unless the document was ahead of it.
	next := lock{fence: number}
	for _, e := range l.entries {
		if e.ID != own.ID && e.Expires > number {
			next.entries = append(next.entries, e)
		}
	}
	entered.Expires = min(entered.Expires, was.Expires)
	if !there {
		entered.Expires = number
	}
	return []lock{next.with(entered)}
}
