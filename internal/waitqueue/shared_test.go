package waitqueue

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/doclock/doclock/relations"
)

func (p *process) reader() Request {
	r := p.ask("read")
	r.Shared = true
	return r
}

// Readers that come at the same time are one entry and one command, and those
// that come later join it; while holders overlap, one checks once in 200 ms.
func TestReadersShareAnEntry(t *testing.T) {
	simulated(t, relations.WritePreferring(), 1, func(d *document, ps []*process) {
		p := ps[0]
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if err := p.section(context.Background(), p.reader(), 50*time.Millisecond); err != nil {
					d.fault("%v", err)
				}
			})
		}
		all.Wait()
		if n := d.sent(); n != 2 {
			d.fault("%d commands of readers who come and leave together", n)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		for i := range 8 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 3 * time.Millisecond)
				for ctx.Err() == nil {
					_ = p.section(ctx, p.reader(), 25*time.Millisecond)
				}
			})
		}
		all.Wait()
		if n := d.sent(); n < 45 || n > 60 {
			d.fault("%d commands of readers who overlap for ten seconds", n)
		}
		if n := len(d.grants); n > 3 {
			d.fault("%d entries", n)
		}
	})
}

// Readers who waited for a writer come in together, in its one command.
func TestReadersComeInTogether(t *testing.T) {
	simulated(t, relations.WritePreferring(), 1, func(d *document, ps []*process) {
		p := ps[0]
		writer, _ := p.acquire(context.Background(), p.ask("write"))
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { _ = p.section(context.Background(), p.reader(), time.Millisecond) })
		}
		time.Sleep(time.Second)
		d.sent()
		p.release("write", writer)
		all.Wait()
		if n := d.sent(); n != 2 {
			d.fault("%d commands", n)
		}
	})
}

// Nobody joins an entry once a writer of another process was seen, and it is
// seen in time.
func TestAnotherProcessesWriterIsLetIn(t *testing.T) {
	simulated(t, relations.WritePreferring(), 2, func(d *document, ps []*process) {
		ctx, cancel := context.WithCancel(context.Background())
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 3 * time.Millisecond)
				for ctx.Err() == nil {
					_ = ps[0].section(ctx, ps[0].reader(), 25*time.Millisecond)
				}
			})
		}
		time.Sleep(time.Second)
		for range 10 {
			begun := time.Now()
			if err := ps[1].section(ctx, ps[1].ask("write"), 0); err != nil {
				d.fault("%v", err)
			}
			if took := time.Since(begun); took > unchecked+150*time.Millisecond {
				d.fault("the writer waited for %v", took)
			}
			time.Sleep(300 * time.Millisecond)
		}
		cancel()
		all.Wait()
	})
}

// A lease that was joined for a waiter that leaves comes back.
func TestALeaseIsJoinedForAWaiterThatLeaves(t *testing.T) {
	simulated(t, relations.WritePreferring(), 1, func(d *document, ps []*process) {
		p := ps[0]
		first := p.reader()
		asking := p.Enter(keyOfOne, first, Known{})
		waiting := p.Enter(keyOfOne, p.reader(), Known{})
		got := d.acquire(first.Request)
		p.hold(first.ID)
		p.Settle(asking, Result{ID: first.ID, Held: first.ID, Image: got.Image, Document: keyOfOne})
		p.Leave(asking)
		if late := p.Leave(waiting); late.Kind != Joined || late.Entry != first.ID {
			d.fault("it was handed %+v", late)
		}
		p.release("read", first.ID)
		p.release("read", first.ID)
	})
}

// Of those who come at the same moment one checks for all.
func TestOneChecksForAll(t *testing.T) {
	simulated(t, relations.WritePreferring(), 1, func(d *document, ps []*process) {
		p := ps[0]
		held, _ := p.acquire(context.Background(), p.reader())
		time.Sleep(unchecked + time.Millisecond)
		d.sent()
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				entry, check, err := p.Join(context.Background(), keyOfOne, p.reader())
				if check != nil && p.Reserve(check.ID) {
					entry = check.ID
					time.Sleep(time.Millisecond)
					d.commands++
					check.End(d.image())
				}
				if err != nil || entry != held {
					d.fault("%v, %v", entry, err)
					return
				}
				p.release("read", entry)
			})
		}
		all.Wait()
		if n := d.sent(); n != 1 {
			d.fault("%d checks", n)
		}
		if n := p.holders[held]; n != 1 {
			d.fault("%d holders", n)
		}
		p.release("read", held)
	})
}
