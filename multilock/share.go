package multilock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// joinable is for how long after a grant's send others join its lease, if a third of the TTL
// isn't less. A waiter of another process that the tag respects waits longer by that time.
const joinable = 200 * time.Millisecond

// shares are the leases that callers of one Locker may join, and the acquires of such
// leases that they wait for together, each of a document and tag (rule 21).
type shares struct {
	mu  sync.Mutex // of all shares, too
	all map[string]*share
}

// share is a lease and its users.
type share struct {
	of    *shares
	by    *call // who has begun the acquire
	key   string
	waits chan struct{}           // closed when the acquire was kept back, if there is an observer
	ended chan struct{}           // closed when the acquire has ended
	end   context.CancelCauseFunc // ends the acquire: nobody waits for it any more
	got   granted                 // set once it has ended, and
	err   error                   // why there is no lease
	until time.Duration           // nobody joins from then on
	users int
	over  bool // a user releases it for all
}

// shares says that the caller may use a lease with others: it asks for nothing of its own,
// and doesn't wait for itself.
func (c *call) shares() bool {
	return c.filter.Exact && !c.skip && len(c.into) == 0 && c.request.Terms == (engine.Terms{}) && c.request.TakeOver == nil && !c.alone &&
		slices.Contains(c.locker.engine.Shared, c.request.Tag) && !slices.ContainsFunc(c.holding, c.isOf)
}

// share joins a lease of this process, or the acquire of one, which it begins if there is
// none. An acquire that tries once waits for no other's.
func (c *call) share(ctx context.Context) (holder, error) {
	s := c.join(ctx)
	if !attempt.IsClosed(s.ended) {
		if err := s.wait(ctx, c); err != nil {
			s.quit()
			return nil, c.failed(ctx, err)
		}
	}
	if s.err != nil {
		return nil, c.failed(ctx, s.err)
	}
	u := &user{Lease: s.got.lease, share: s}
	u.life, u.end = context.WithCancelCause(context.Background())
	u.unfollow = u.Follow(u.end)
	return u, nil
}

// wait waits for the end of the acquire. The caller's own events say behind whom.
func (s *share) wait(ctx context.Context, c *call) error {
	if !c.tries() {
		defer c.observed.remind()()
	}
	waits := s.waits
	for {
		select {
		case <-waits:
			waits = nil
			c.observed.emitWaiting(c.lastConflict())
		case <-s.ended:
			if waits == nil { // the last holders may be others
				c.observed.emitWaiting(c.lastConflict())
			}
			return nil
		case <-ctx.Done():
			return attempt.Ended(ctx)
		}
	}
}

// join is a share that has one user more.
func (c *call) join(ctx context.Context) *share {
	all, key := &c.locker.shares, c.request.Tag+"\x00"+c.document
	all.mu.Lock()
	defer all.mu.Unlock()
	s := all.all[key]
	if s != nil && s.takes(c) {
		c.progress = s.by.progress
		s.users++
		return s
	}
	joins := s == nil || attempt.IsClosed(s.ended) || !c.tries() // else others may join that one
	own := *c
	s = &share{of: all, by: &own, key: key, waits: make(chan struct{}), ended: make(chan struct{}), users: 1}
	own.observed = c.observed.delegate(s)
	var acquiring context.Context
	acquiring, s.end = context.WithCancelCause(attempt.Detached(ctx))
	if joins {
		all.all[key] = s
	}
	c.locker.ops.Go(func() { s.begin(acquiring) })
	return s
}

// takes says that the caller may join. The shares are locked.
func (s *share) takes(c *call) bool {
	if !attempt.IsClosed(s.ended) {
		return !s.by.tries() && !c.tries() // nobody waits for the end of one that tries once
	}
	return s.err == nil && c.locker.queues.Now() < s.until && s.got.lease.Err() == nil
}

// begin acquires the lease. If the grant's image shows an entry that the tag respects,
// nobody joins who comes later.
func (s *share) begin(ctx context.Context) {
	c := s.by
	got, err := c.run(ctx)
	s.of.mu.Lock()
	s.got, s.err = got, err
	if err == nil {
		s.until = got.sent + min(joinable, c.locker.engine.Lease(c.request.Tag)/3)
		if respected, _ := c.locker.engine.InTheWay(got.image, c.request.Tag, nil); len(respected) > 0 {
			s.until = 0
		}
	}
	if err != nil || s.until == 0 {
		s.close()
	} else {
		time.AfterFunc(s.until-c.locker.queues.Now(), s.forget)
	}
	users := s.users
	s.of.mu.Unlock()
	close(s.ended)
	if users == 0 {
		c.takeBack(got.lease)
	}
}

// forget is close, for a lease that nobody may ever release.
func (s *share) forget() {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.close()
}

// close lets nobody join any more. The shares are locked.
func (s *share) close() {
	if s.of.all[s.key] == s {
		delete(s.of.all, s.key)
	}
}

// quit is the end of a caller who has left before he had the lease.
func (s *share) quit() {
	s.of.mu.Lock()
	s.users--
	nobody, got := s.users == 0, s.got.lease
	if nobody {
		s.close()
	}
	s.of.mu.Unlock()
	if nobody {
		s.end(errors.New("all callers have left"))
	}
	if nobody && got != nil { // it has come at the same time
		s.by.locker.cleanup.release(context.Background(), s.by.request, got)
	}
}

// user is a caller's part of a shared lease. Writes go through the lease, one at a time. The
// last user to leave releases it. Once its validity has ended, the first one releases it for
// all, because others may have been let in.
type user struct {
	*lease.Lease
	share    *share
	life     context.Context // ends with the lease, or when the user leaves
	end      context.CancelCauseFunc
	unfollow func()
	events   *lease.Announcement

	state usage // under the shares' mutex
	last  error // what the release of one who has left returns
}

// usage is what a user has done.
type usage uint8

const (
	using     usage = iota
	releasing       // the lease, whose answer is the user's
	left            // and others stay, or one of them has released the lease for all
)

// check refuses a call of a user who has left, or whose lease another one has released for
// all.
func (u *user) check() error {
	u.share.of.mu.Lock()
	defer u.share.of.mu.Unlock()
	switch {
	case u.state == left:
		return u.Released()
	case u.state == using && u.share.over:
		return u.Lease.Err()
	default:
		return nil
	}
}

// leave takes the user out, and says whether he releases the lease.
func (u *user) leave(ctx context.Context) (releases bool, verdict error) {
	s := u.share
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if u.state != using {
		return u.state == releasing, u.last
	}
	lost := u.Lease.Err()
	if !s.over && (s.users == 1 || lost != nil) {
		u.release()
		return true, nil
	}
	s.users--
	u.state, u.last = left, lost
	u.unfollow()
	u.end(u.Released())
	u.events.End(ctx, lost)
	return false, lost
}

// Unlock is Release, which raises no panic.
func (u *user) Unlock(ctx context.Context) error {
	if engine.InTransaction(ctx) {
		return u.Lease.Unlock(ctx) // which refuses that
	}
	releases, verdict := u.leave(ctx)
	if releases {
		return u.Lease.Unlock(ctx)
	}
	return verdict
}

func (u *user) Release(ctx context.Context) error { return engine.Raise(u.Unlock(ctx)) }

// UpdateAndRelease implements doclock.Lease. Beside others it is an Update, and the end of the
// user's part. The verdict of an update that was executed counts.
func (u *user) UpdateAndRelease(ctx context.Context, update any, opts ...options.Lister[options.UpdateOneOptions]) error {
	if err := u.check(); err != nil {
		return err
	}
	if u.alone() {
		return u.Lease.UpdateAndRelease(ctx, update, opts...)
	}
	err := u.Lease.Update(ctx, update, opts...)
	if lease.Unsent(err) { // the user goes on
		return err
	}
	released, _ := attempt.Run(ctx, u.share.by.locker.ops, func() error { return u.Unlock(attempt.Detached(ctx)) }, func(error) {})
	return engine.Raise(lease.Besides(err, released))
}

// alone says that nobody else uses the lease, and nobody will.
func (u *user) alone() bool {
	s := u.share
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if u.state == using && s.users == 1 {
		u.release()
	}
	return u.state == releasing
}

// release begins the release for all. The shares are locked.
func (u *user) release() {
	u.share.close()
	u.share.over, u.state = true, releasing
}

func (u *user) Update(ctx context.Context, update any, opts ...options.Lister[options.UpdateOneOptions]) error {
	if err := u.check(); err != nil {
		return err
	}
	return u.Lease.Update(ctx, update, opts...)
}

func (u *user) WithTransaction(ctx context.Context, fn func(context.Context) error) error {
	if err := u.check(); err != nil {
		return err
	}
	return u.Lease.WithTransaction(ctx, fn)
}

func (u *user) Renew(ctx context.Context) error {
	if err := u.check(); err != nil {
		return err
	}
	return u.Lease.Renew(ctx)
}

func (u *user) Delete(context.Context) error { return u.refuse("Delete") }

func (u *user) Detach(context.Context) (string, error) { return "", u.refuse("Detach") }

func (u *user) Convert(context.Context, string) (doclock.Lease, error) {
	return nil, u.refuse("Convert")
}

// refuse refuses a command that would end the lease of the others.
func (u *user) refuse(command string) error {
	return fmt.Errorf("%w: %s of %v: callers of this process share the lease (ShareInProcess); give this command under a tag that is not shared",
		doclock.ErrInvalidArgument, command, u)
}

func (u *user) Guard() bson.D {
	if u.check() != nil {
		return lease.Nothing()
	}
	return u.Lease.Guard()
}

func (u *user) Remaining() time.Duration {
	if u.check() != nil {
		return 0
	}
	return u.Lease.Remaining()
}

func (u *user) Err() error { return cmp.Or(u.check(), u.Lease.Err()) }

func (u *user) Done() <-chan struct{} { return u.life.Done() }

func (u *user) KeepAlive(ctx context.Context) context.Context {
	kept, end := u.Keep(ctx, u.life)
	if cause := context.Cause(u.life); cause != nil {
		end(cause) // at once
	}
	stop := context.AfterFunc(u.life, func() { end(context.Cause(u.life)) })
	context.AfterFunc(kept, func() { stop() })
	return kept
}

// Work is the lease's, renewed for this user no longer than he has it.
func (u *user) Work(ctx context.Context) (work context.Context, end context.CancelCauseFunc) {
	life, returned := context.WithCancel(u.life)
	work, endLease := u.WorkOf(ctx, life)
	return work, func(cause error) {
		returned()
		if cause == nil {
			u.KeepAlive(context.WithoutCancel(ctx))
			cause = u.Released()
		}
		endLease(cause)
	}
}

func (u *user) String() string { return lease.Text(u) }

func (u *user) LogValue() slog.Value { return lease.LogValue(u) }
