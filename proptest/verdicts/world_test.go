package verdicts

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"github.com/doclock/doclock/writelock"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// ttl is that of all leases. The server keeps their entries for a second longer.
const ttl = 10 * time.Second

// world is one cell's: the caller's program, whose client can be cut off, and another
// program that wants the same lock.
type world struct {
	*testing.T
	mem     *locktest.Server
	client  *mongo.Client
	ours    *mongo.Collection
	locks   *multilock.Locker
	leaders *writelock.Locker
	others  *multilock.Locker

	ctx      context.Context // the call's
	end      context.CancelFunc
	inner    context.Context // fn's
	returned error           // by fn
	failure  failure
	rivals   bool
	operates bool        // the call is an operator's, and of any kind
	theirs   admin.Entry // that it names
	panics   atomic.Bool // our client's monitor does, at the next command
	running  sync.WaitGroup

	lease  doclock.Lease
	leases multilock.Leases
	ticket *multilock.Ticket
	token  string
	ran    bool          // the function has
	relied time.Time     // until when the caller has relied on the lock
	letIn  chan struct{} // closed when the other program is granted the lock
	since  time.Time     // which was then
}

func newWorld(t *testing.T, opts ...locktest.Option) *world {
	w := &world{T: t, mem: locktest.New(t, opts...), letIn: make(chan struct{})}
	theirs := w.mem.Collection("documents", bson.M{"_id": 1}, bson.M{"_id": 2})
	w.client = w.mem.Connect(options.Client().SetMonitor(&event.CommandMonitor{
		Succeeded: func(context.Context, *event.CommandSucceededEvent) {
			if w.panics.Swap(false) {
				panic(errOwn)
			}
		},
	}))
	w.ours = w.client.Database("test").Collection("documents")
	rules := relations.ReadPreferring()
	rules["slot"] = relations.Semaphore(1)["slot"]
	rules["slot"]["write"], rules["write"]["slot"] = rules["slot"]["slot"], rules["slot"]["slot"] // so that "write" excludes all, for Delete
	w.locks, w.others, w.leaders = must(multilock.New(w.ours, rules)), must(multilock.New(theirs, rules)), must(writelock.New(w.ours))
	w.ctx, w.end = context.WithCancel(t.Context())
	t.Cleanup(func() { // t's context has ended
		w.mem.Fail(0, mongo.CommandError{})
		w.mem.Reconnect(w.client)
		ctx := context.Background()
		for _, l := range []interface{ Close(context.Context) error }{w.locks, w.leaders, w.others} {
			w.must(fixture.Rested(l.Close(ctx)))
		}
		w.running.Wait()
	})
	return w
}

func (w *world) must(err error) {
	if err != nil {
		w.Helper()
		w.Fatal(err)
	}
}

// must is what a world begins with.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// away cuts the caller's program off from now on.
func (w *world) away(d time.Duration) {
	w.mem.Cut(w.client)
	time.AfterFunc(d, func() { w.mem.Reconnect(w.client) })
}

// broken loses the next command or its reply, and has the server be away then.
func (w *world) broken(lose func(n int, only ...locktest.Kind), d time.Duration) {
	lose(1, w.kinds()...)
	if d > 0 {
		time.AfterFunc(time.Millisecond/2, func() { w.away(d) }) // before the driver notices that its connection is broken
	}
}

func (w *world) refuse(n int, code int32, labels ...string) {
	w.mem.Fail(n, mongo.CommandError{Code: code, Message: "refused", Labels: labels}, w.kinds()...)
}

// kinds are those of the caller's commands, and not of the rival's.
func (w *world) kinds() []locktest.Kind {
	if w.operates {
		return nil
	}
	kinds := []locktest.Kind{locktest.Renewals, locktest.Writes, locktest.Releases, locktest.CleanUps, locktest.Transactions}
	if !w.rivals {
		kinds = append(kinds, locktest.Acquires)
	}
	return kinds
}

func (w *world) limit(d time.Duration) {
	ctx, end := context.WithTimeout(w.ctx, d)
	w.ctx = ctx
	w.Cleanup(end)
}

// passed waits until the lease's time is up and the rival has the lock.
func (w *world) passed() {
	if w.rivals {
		<-w.letIn
		time.Sleep(time.Millisecond)
	} else {
		time.Sleep(2 * ttl)
	}
	w.relied = time.Now()
}

// held are the leases of document 1.
func (w *world) held() doclock.Lease {
	if w.leases != nil {
		return w.leases[0]
	}
	return w.lease
}

// rival wants the lock of document 1 as soon as it can have it, and keeps it for a
// minute.
func (w *world) rival() {
	w.rivals = true
	ctx := w.Context()
	w.running.Go(func() {
		for ctx.Err() == nil {
			lease, err := w.others.Acquire(ctx, one, "write")
			if err != nil {
				time.Sleep(10 * time.Millisecond)
				continue
			}
			w.since = time.Now()
			close(w.letIn)
			kept := lease.KeepAlive(ctx)
			select {
			case <-kept.Done():
			case <-time.After(time.Minute): // Lead campaigns again
			}
			_ = lease.Release(context.WithoutCancel(ctx))
			return
		}
	})
}

// before says that the rival was let in while the caller relied on the lock.
func (w *world) before() bool {
	select {
	case <-w.letIn:
		return w.since.Before(w.relied)
	default:
		return false
	}
}

// acquire gives the caller a lease of document 1, and the rival its chance.
func (w *world) acquire() {
	w.acquireAlone()
	w.rival()
}

func (w *world) acquireAlone() {
	w.lease = must(w.locks.Acquire(w.ctx, one, "write"))
}

func (w *world) acquireAll() {
	w.leases = must(multilock.AcquireAll(w.ctx, w.both()...))
	w.rival()
}

func (w *world) both() []multilock.Want {
	return []multilock.Want{w.locks.Want(one, "write"), w.locks.Want(doclock.ID(2), "write")}
}

// begin is acquire, and a transaction: the next one sends its commands one after the other.
func (w *world) begin() {
	w.acquire()
	w.must(w.lease.WithTransaction(w.ctx, func(context.Context) error { return nil }))
}

func (w *world) beginAll() {
	w.acquireAll()
	w.must(w.leases.WithTransaction(w.ctx, func(context.Context) error { return nil }))
}

// transact writes another document in a transaction of leases, and checks the verdict.
func (w *world) transact(begin func(context.Context, func(context.Context) error) error) error {
	written := w.client.Database("test").Collection("written")
	err := begin(w.ctx, func(ctx context.Context) error { _, err := written.InsertOne(ctx, one); return err })
	w.Cleanup(func() {
		time.Sleep(3 * time.Minute) // what is late has come
		n := must(w.mem.Client().Database("test").Collection("written").CountDocuments(context.Background(), bson.M{}))
		if is := n == 1; !errors.Is(err, doclock.ErrOutcomeUnknown) && is != (err == nil) {
			w.Errorf("%v, and written: %t", err, is)
		}
	})
	return err
}

// runs is a function that holds the lock.
func (w *world) runs(context.Context, doclock.Lease) error {
	w.ran = true
	return nil
}

// fails is a function that meets the failure while it holds the lock.
func (w *world) fails(ctx context.Context, lease doclock.Lease) error {
	if w.ran { // Lead has campaigned again
		return nil
	}
	w.ran, w.lease, w.inner = true, lease, ctx
	if w.failure.name != nobodyWants {
		w.rival()
	}
	w.failure.arm(w)
	w.relied = time.Now()
	return w.returned
}

// enqueue gives the caller a ticket that is free to be granted: its holder has left.
func (w *world) enqueue() {
	lease := must(w.others.Acquire(w.ctx, one, "slot"))
	w.ticket = must(w.locks.Enqueue(w.ctx, one, "slot"))
	w.must(lease.Release(w.ctx))
}

// erase removes the entry of the caller's ticket or token, as an operator does.
func (w *world) erase() {
	must(w.mem.Client().Database("test").Collection("documents").UpdateByID(w.ctx, 1, bson.M{"$unset": bson.M{"lock.tags": 1}}))
}

func (w *world) detach() {
	w.acquireAlone()
	w.token = must(w.lease.Detach(w.ctx))
}

// operate gives the operator an entry, which another program holds.
func (w *world) operate() {
	w.operates = true
	must(w.others.Acquire(w.ctx, one, "write", doclock.MaxWait(0)))
	w.theirs = w.entry()
}

// entry is that entry, as another operator reads it, or none.
func (w *world) entry() admin.Entry {
	for e, err := range admin.Entries(w.Context(), w.mem.Client().Database("test").Collection("documents"), admin.Query{}) {
		w.must(err)
		return e
	}
	return admin.Entry{}
}

// gone says that there is none.
func (w *world) gone() bool {
	w.mem.Fail(0, mongo.CommandError{})
	return w.entry().ID == uuid.Nil
}

// taken says that the lease's entry was ended by a take-over.
func (w *world) taken() bool {
	w.mem.Fail(0, mongo.CommandError{})
	raw := must(w.mem.Client().Database("test").Collection("documents").FindOne(w.Context(), one).Raw())
	fence, _ := raw.Lookup("lock", "broken").AsInt64OK()
	return w.lease != nil && fence == w.lease.Fence()
}

// verdicts are the errors that speak of a lock, and their words.
var verdicts = []struct {
	err  error
	word string
}{
	{doclock.ErrNotAcquired, "NotAcquired"}, {doclock.ErrLost, "**Lost**"}, {doclock.ErrOutcomeUnknown, "**Unknown**"},
}

var errOwn = errors.New("fn's own")

// mayHaveEnded says that an acquire's error speaks of the leases that it was to take over.
func mayHaveEnded(err error) bool { return strings.Contains(err.Error(), "may have ended") }

// words is a cell's text: the verdicts on the lock. Beside none, or beside ErrNotAcquired alone, it has the reasons. An
// unknown outcome must have one, too. What the function has returned is its own, whatever it is.
func words(err, returned error) string {
	if err == nil {
		return "nil"
	}
	var all, reasons []string
	for _, v := range verdicts {
		if errors.Is(err, v.err) {
			all = append(all, v.word)
		}
	}
	unreachable := strings.Contains(err.Error(), "server selection error")
	for _, c := range []struct {
		is   bool
		word string
	}{
		{errors.Is(err, doclock.ErrConflict), "Conflict"},
		{errors.Is(err, doclock.ErrNotFound), "NotFound"},
		{mayHaveEnded(err), "may have ended it"},
		{errors.Is(err, doclock.ErrReleased), "Released"},
		{returned != nil && err.Error() == returned.Error() || errors.Is(err, errOwn), "fn's"},
		{errors.As(err, new(mongo.CommandError)) || unreachable || mongo.IsNetworkError(err), "driver's"},
		{errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) && !unreachable, "ctx's"},
	} {
		if c.is {
			reasons = append(reasons, c.word)
		}
	}
	if errors.Is(err, doclock.ErrNotAcquired) && len(all)+len(reasons) > 1 {
		all = all[1:] // each acquire's error is that
	}
	switch {
	case len(all)+len(reasons) == 0:
		return err.Error()
	case len(all) == 0:
		return strings.Join(reasons, ", ")
	case errors.Is(err, doclock.ErrOutcomeUnknown) && len(reasons) == 0:
		all = append(all, "without a reason")
	}
	return strings.Join(all, ", ")
}

func count(err error) (n int) {
	for _, v := range verdicts {
		if errors.Is(err, v.err) {
			n++
		}
	}
	return n
}
