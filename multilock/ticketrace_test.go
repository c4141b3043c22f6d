package multilock_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/relations"
)

// The methods of a ticket may be called while a confirm whose caller gave up is
// granted. (The race detector is what fails.)
func TestTicketIsReadWhileAConfirmGrantsIt(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, net := p.faulty()
	reader := p.try(p.locker(p.coll, relations.WritePreferring()), "read")
	ticket, err := p.locker(coll, relations.WritePreferring()).Enqueue(t.Context(), flowers, "write")
	if err != nil {
		t.Fatal(err)
	}
	p.release(reader)

	slow := net.Arm(faultnet.DelayReply, "findAndModify")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-slow.Fired()
		cancel()
	}()
	if _, err := ticket.Confirm(ctx); !errors.Is(err, doclock.ErrNotAcquired) {
		t.Fatalf("Confirm = %v", err)
	}
	id := ticket.ID()
	var asking sync.WaitGroup
	asking.Go(func() { // nothing puts these reads before or after what the confirm writes
		for range 1000 {
			if ticket.ID() != id || ticket.Tag() != "write" || ticket.DocumentID().IsZero() {
				t.Error("the ticket is another one")
			}
			runtime.Gosched()
		}
	})
	if err := slow.Let(); err != nil {
		t.Fatal(err)
	}
	lease, err := ticket.Confirm(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	asking.Wait()
	p.release(lease)
}
