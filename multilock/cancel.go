package multilock

import (
	"context"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/oneline"
)

// Cancel leaves the document's queue: it removes the ticket's entry. It does
// nothing if the lease was handed out or the ticket is lost. Tickets of one document
// that are cancelled together are removed by one command. If ctx ends first, Cancel
// returns ctx's error and [doclock.ErrOutcomeUnknown], and the removal goes on in
// the background.
func (t *Ticket) Cancel(ctx context.Context) error {
	answer := make(chan error, 1)
	t.cancel(func(err error) { answer <- err })
	select {
	case err := <-answer:
		t.place.a.tellUnknown(err)
		return err
	case <-ctx.Done():
		err := oneline.Join(attempt.Ended(ctx), doclock.ErrOutcomeUnknown)
		t.place.a.tellUnknown(err)
		return err
	}
}

// cancel removes the place once no command is under way, and then calls answer.
func (t *Ticket) cancel(answer func(error)) {
	select {
	case t.turn <- struct{}{}:
		t.withdraw(answer)
	default:
		t.place.a.locker.ops.Go(func() {
			t.turn <- struct{}{}
			t.withdraw(answer)
		})
	}
}

// withdraw is cancel in the ticket's turn.
func (t *Ticket) withdraw(answer func(error)) {
	done := func(err error) {
		<-t.turn
		answer(err)
	}
	t.mu.Lock()
	held, nothing := t.lease, t.handed || t.over != nil
	if !nothing {
		t.over, t.lease = doclock.ErrReleased, nil
		t.tell(nil, t.over)
	}
	t.mu.Unlock()
	if nothing {
		done(nil)
		return
	}
	t.place.withdraw(held, done) // held was granted to a caller who had given up
}
