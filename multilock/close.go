package multilock

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/bsonvalue"
	"github.com/doclock/doclock/internal/lease"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// This file has the shutdown of a Locker, and the functions that it waits for.

// Close shuts the Locker down. At once it refuses new acquires, wakes waiters with
// [doclock.ErrClosed], and ends the context of a Lead's function with that cause. Then
// it waits for the functions of Do, DoAll and Lead, and for what runs in the background
// (commands and releases whose callers gave up). When ctx ends, it ends the contexts of
// the other functions too, and waits for an AttemptTimeout more.
//
// It returns nil if nothing is left. Else its error names the functions that have not
// ended, the leases that nobody has released, and the entries that nobody holds and
// that could not be removed. Leases stay valid, and can be renewed and released.
//
// Close removes once more what acquires without a lease may have left. A removal
// without an answer is repeated, for 30 s while Close waits, and after that until the
// entry expires. An attempt that the server executes after Close leaves an entry until
// it expires.
//
// With the context of a function of the same Locker, Close would wait for itself. It
// is refused, with a [doclock.ErrInvalidArgument], and does nothing.
func (l *Locker) Close(ctx context.Context) error {
	if l.functions.have(ctx) {
		return fmt.Errorf("%w: Close with the context of a function that the Locker runs; it waits for that function: call it after Do, DoAll or Lead", doclock.ErrInvalidArgument)
	}
	l.ops.Close()
	l.functions.stop(l.closed, func(f *function) bool { return f.atOnce })
	l.cleanup.close()
	err := l.ops.Wait(ctx)
	if err != nil {
		l.functions.stop(l.closed, func(*function) bool { return true })
		more, cancel := context.WithTimeout(attempt.Detached(ctx), l.engine.Attempt(l.engine.TTL).Timeout)
		defer cancel()
		if l.ops.Wait(more) == nil {
			err = nil
		}
	}
	return oneline.Join(err, l.functions.remain(), l.unreleased(), l.cleanup.remains(err == nil))
}

func (l *Locker) closing() bool {
	select {
	case <-l.ops.Closing():
		return true
	default:
		return false
	}
}

// unreleased is the error of a Close that leaves leases: those of functions that have
// not ended are named as that.
func (l *Locker) unreleased() error {
	running := l.functions.ids()
	var names []string
	for _, left := range l.leases.Left() {
		if _, named := running[left.ID]; !named {
			names = append(names, fmt.Sprintf("%s until %s", nameOf(left.Tag, left.ID, left.Pin.ID()), left.Until.UTC().Format(time.RFC3339)))
		}
	}
	return leaves("leaves leases that nobody has released", names)
}

func nameOf(tag string, id uuid.UUID, document bson.RawValue) string {
	if document.IsZero() {
		return fmt.Sprintf("%s of %q in a document", id, tag)
	}
	return fmt.Sprintf("%s of %q in document %s", id, tag, bsonvalue.Readable(document))
}

const mostNamed = 3

// leaves is the error of a Close that leaves something.
func leaves(what string, names []string) error {
	if len(names) == 0 {
		return nil
	}
	if more := len(names) - mostNamed; more > 0 {
		names = append(names[:mostNamed:mostNamed], fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("doclock: Close %s: %s", what, strings.Join(names, ", "))
}

// functions are those that run under leases of a Locker.
type functions struct {
	mu  sync.Mutex
	all map[*function]struct{}
}

// function is one of Do, DoAll or Lead, and its context. Without a context it is a claim, or
// a call that has some of several leases, and waits for the others.
type function struct {
	context.Context
	given   context.Context // the one of its call
	handles []*lease.Lease
	end     context.CancelCauseFunc
	atOnce  bool // Close ends it at once
}

// Value implements context.Context.
func (f *function) Value(key any) any {
	if key == (functionKey{}) {
		return f
	}
	return f.Context.Value(key)
}

// functionKey finds the innermost function that a context is of.
type functionKey struct{}

// begin has Close know of the function until leave is called.
func (f *function) begin(l *Locker) (leave func()) {
	l.functions.mu.Lock()
	l.functions.all[f] = struct{}{}
	l.functions.mu.Unlock()
	if f.atOnce && l.closing() {
		f.end(l.closed)
	}
	return func() {
		l.functions.mu.Lock()
		defer l.functions.mu.Unlock()
		delete(l.functions.all, f)
	}
}

// have says that the context is one of a function that runs, or comes from it.
func (fs *functions) have(ctx context.Context) bool {
	fs.mu.Lock()
	all := maps.Clone(fs.all)
	fs.mu.Unlock()
	for {
		f, inside := ctx.Value(functionKey{}).(*function)
		if !inside {
			return false
		}
		if _, runs := all[f]; runs {
			return true
		}
		ctx = f.given
	}
}

// stop ends the contexts of some functions, under no mutex: what follows the end of a
// context may be the caller's code.
func (fs *functions) stop(cause error, which func(*function) bool) {
	fs.mu.Lock()
	all := maps.Clone(fs.all)
	fs.mu.Unlock()
	for f := range all {
		if which(f) {
			f.end(cause)
		}
	}
}

// ids are those of the leases of all functions.
func (fs *functions) ids() map[uuid.UUID]*lease.Lease {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	ids := map[uuid.UUID]*lease.Lease{}
	for f := range fs.all {
		for _, h := range f.handles {
			ids[h.ID()] = h
		}
	}
	return ids
}

// remain is the error of a Close that leaves functions.
func (fs *functions) remain() error {
	var names []string
	for id, h := range fs.ids() {
		names = append(names, nameOf(h.Tag(), id, h.DocumentID()))
	}
	return leaves("leaves functions that have not ended, or whose leases are not released", names)
}
