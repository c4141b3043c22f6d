package doclock

import (
	"context"
	"time"

	"github.com/doclock/doclock/internal/lease"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Lease is a lock that was granted. It is safe for concurrent use. Its writes
// run one after the other, renewals run between them, and a release waits for
// both. The zero Lease behaves as lost.
//
// Two things end a lease. The first is this machine's validity ([Lease.Done],
// [Lease.Err]): it ends a TTL after the last renewal was sent, before the server
// lets anybody in. The second is the server's verdict: it says with every
// command whether the entry is still in the document, and its word counts. So
// [Lease.Update] and [Lease.Release] are sent even after the end of the
// validity, and succeed if nobody was let in meanwhile. Once the server has said
// that the entry is gone, the lease stays lost: nothing is written under it any
// more, and Release returns [ErrLost].
//
// If a caller's context ends during a command, the call returns at once, with
// [ErrOutcomeUnknown]. The command runs to its end in the background, and the
// lease's next command waits for it.
type Lease lease.Handle

func (l *Lease) handle() *lease.Handle { return (*lease.Handle)(l) }

// ID is the entry's id in the document, unique to this lease. Goroutines that
// share an entry ([ShareInProcess]) have leases with the same ID.
func (l *Lease) ID() uuid.UUID { return l.handle().ID() }

// Tag is the tag that the lease was acquired under.
func (l *Lease) Tag() string { return l.handle().Tag() }

// Fence is the lease's fencing token. On one document the tokens increase from
// grant to grant, so writes to another place under the lease can be ordered by
// it.
//
// If the tag excludes itself, that place should reject a write whose token is
// smaller than the greatest that it has seen: its lease is over. Do not do that if
// leases of the tag are held at the same time, as readers' are: a reader with a
// smaller token may well finish after one with a greater, and both hold the lock. Compare their tokens only with those of tags that exclude
// them.
func (l *Lease) Fence() int64 { return l.handle().Fence() }

// DocumentID is the _id of the locked document.
func (l *Lease) DocumentID() bson.RawValue { return l.handle().DocumentID() }

// Guard is a filter that matches the document as long as the lock is held in
// it: {_id: …, "lock.tags.<tag>": {$elemMatch: {id: …, fence: …}}}. Use it for
// writes of your own, also in bulk or in a transaction, with three exceptions.
// Never use it with an upsert. Never use it with the positional operator `.$`:
// the server may take the position from the lock's array. Never use it with
// ReplaceOne or another replacement of the document: that is applied, and erases
// the lock, of all its holders, so that others are let in. It doesn't number the
// write: if you send it again after a lost reply, it is applied again, unlike
// [Lease.Update]. The Guard of a released lease matches nothing.
func (l *Lease) Guard() bson.D { return l.handle().Guard() }

// Remaining is how long the lease is valid without a renewal; 0 when it is
// over.
func (l *Lease) Remaining() time.Duration { return l.handle().Remaining() }

// Done is closed when the lease is not valid any more: its time is up, it was
// found lost, it is being released or detached, or it was downgraded.
func (l *Lease) Done() <-chan struct{} { return l.handle().Done() }

// Err is nil while the lease is valid, and then [ErrLost] or [ErrReleased]. While
// a [Lease.Downgrade] is under way it is [ErrOutcomeUnknown].
func (l *Lease) Err() error { return l.handle().Err() }

// KeepAlive renews the lease, three times a TTL, until it is released or lost
// or ctx ends, and returns a context that ends then too. Its cause is
// [ErrReleased], [ErrLost], or ctx's. A loss ends it at the moment when the
// lease ends, not at the next renewal. Do the work with the returned context:
//
//	ctx = lease.KeepAlive(ctx)
//	err = work(ctx) // is cancelled when the lease ends
//	err = errors.Join(err, lease.Release(context.WithoutCancel(ctx)))
//
// A single lease is renewed by one findAndModify. The leases of one Locker that
// are kept alive are renewed together: one update command renews up to a hundred
// of them, and if it has not matched them all, a find shows which are lost.
// One goroutine does this for all of them, and ends with the last. Its commands
// carry no values of ctx.
//
// Errors that may pass are retried and not taken for a loss. Several calls renew
// the lease once, and each returns its own context.
func (l *Lease) KeepAlive(ctx context.Context) context.Context {
	return l.handle().KeepAlive(ctx)
}

// Renew extends the lease to a TTL from now, or to the end of [HoldAtMost], in one
// command. [Lease.KeepAlive] does it by itself. After an error that may pass it is
// repeated for 30 s, but not beyond the end of ctx or of the lease. It returns
// [ErrLost] if the entry is gone. It also returns ErrLost if the lease's time is up,
// and then sends nothing: a lease is never revived.
func (l *Lease) Renew(ctx context.Context) error {
	return l.handle().Renew(ctx)
}

// Update applies an update to the locked document if, and only if, the lock is
// still held in it, in one command. It keeps the lock. A call's update is applied at
// most once, however often the library has to send it. A second call is a second
// update, also after an ErrOutcomeUnknown.
//
// It takes what the driver's UpdateOne takes (bson.D, bson.M, bson.Raw, a
// struct, a pipeline), with its options. All of it is encoded once, with the
// collection's registry and BSON options, in the caller's goroutine and before
// anything is sent. So later changes of the values have no effect, and a panic
// in a codec of the caller's comes up in the caller's goroutine and leaves the
// lease as it is. It refuses, with [ErrInvalidArgument] and before anything is
// sent: what can't be encoded, replacements, paths that touch the lock field,
// the positional operator `.$`, upserts.
//
// It returns
//   - nil if the update was applied;
//   - [ErrLost] if the lock was not held any more: nothing was written;
//   - [ErrOutcomeUnknown] if the update may have been applied, or may be yet;
//   - the server's error if the server refused it: the lease stands.
//
// It is never two of them. Ask [Lease.Err] whether the lease is over as well.
func (l *Lease) Update(ctx context.Context, update any, opts ...options.Lister[options.UpdateOneOptions]) error {
	return l.handle().Update(ctx, update, opts...)
}

// UpdateAndRelease applies an update and releases the lock in the same command.
// So a read-modify-write under a lock takes two commands, with [Into] on the
// acquire. It takes and refuses what [Lease.Update] does; if it refuses, the
// lease stands. Its answers are Update's, and of the lock they say what
// [Lease.Release] does. Release, called after it, sends nothing and returns the
// answer; if ctx ended first, it waits for that. There is one exception: if the
// server refuses the update, the lock is released by a command of its own,
// UpdateAndRelease returns the server's error, joined with [ErrLost] or
// [ErrOutcomeUnknown] if that release says so, and Release returns what became of
// the lock.
//
// It is repeated until it is answered, ctx ends, or the server would let others
// in anyway. If no server can be reached for 30 s, the driver's error is
// returned, with ErrOutcomeUnknown if the lease's time is up: nothing was written,
// and Release may be called.
//
// If other goroutines share the entry ([ShareInProcess]), it writes, and leaves the
// lock to them.
func (l *Lease) UpdateAndRelease(ctx context.Context, update any, opts ...options.Lister[options.UpdateOneOptions]) error {
	return l.handle().UpdateAndRelease(ctx, update, opts...)
}

// Delete deletes the locked document if, and only if, the lock is still held in
// it, in one command, and ends the lease as released: the lock is deleted with
// the document, also before the time of [HoldAtLeast]. A plain DeleteOne with
// [Lease.Guard] deletes as safely, but the release that follows finds nothing,
// and returns [ErrLost].
//
// It returns
//   - nil if it deleted the document;
//   - ErrLost if the lock was not held any more: nothing was deleted;
//   - [ErrOutcomeUnknown] if the document may have been deleted, or may be yet;
//   - the server's error if the server refused it: the lock is then released by
//     a command of its own.
//
// Release, called after it, returns the same answer, or nil if the server refused the
// delete and the lock was released. It is repeated until it is answered, ctx ends, or
// the server would let others in anyway.
//
// If other goroutines share the entry ([ShareInProcess]), it returns
// [ErrInvalidArgument], nothing is sent, and the lease stands: delete under a
// tag that excludes others.
func (l *Lease) Delete(ctx context.Context) error {
	return l.handle().Delete(ctx)
}

// Detach ends the lease here and leaves its entry to the users of the token, in one
// command. A user of the token can make a lease of the entry by a Locker's Resume, in
// this or another process, and can extend the entry by Touch. The entry is extended
// to a TTL from now. The lease ends with [ErrReleased] as the
// command is sent: Done is closed, and it sends nothing more. A write in doubt may
// still be applied once, but only before the next Resume.
//
// The token is a text in the alphabet of URLs. It names the collection, the lock
// field, the document, the tag and a random key. Whoever has the token can resume
// the lock and release it: keep it as secret as that. A lease that was itself
// resumed gives the same token again; if it has a TTL of its own, the token's
// text differs, and both texts are good.
//
// It returns
//   - the token and nil if the entry was there;
//   - [ErrLost] if it was not: others may have been let in;
//   - the token and [ErrOutcomeUnknown] if nobody knows that, or ctx ended first. A
//     resume shows it. Instead of using the token, call Release: it ends the entry,
//     detached or not;
//   - the server's error if the server refused it, without a token: the entry stands,
//     and Detach or Release may be called. If the lease's time is up, it is an
//     ErrOutcomeUnknown too: others may have been let in.
//
// Release, called after a Detach that returned nil or ErrLost, sends nothing and
// returns the same: so a deferred Release does not end what was detached. The
// detach is repeated until it is answered, ctx ends, or the server would let
// others in anyway.
//
// If other goroutines share the entry ([ShareInProcess]), and after an acquire with
// [HoldAtMost], it returns [ErrInvalidArgument], nothing is sent, and the lease stands.
// No goroutine joins the entry after the detach was sent.
func (l *Lease) Detach(ctx context.Context) (token string, err error) {
	return l.handle().Detach(ctx)
}

// Downgrade gives up the lease for one of another tag, in one command: a handoff
// to oneself. No other client gets the lock in between. The other tag is one of
// the Locker's; it may be any tag, not only a weaker one. The new lease has an ID
// and a fencing token of its own, its validity counts from the send, and its TTL
// is that of its tag, or the [TTL] of the acquire if it had one. Its owner is
// the lease's. A token of the lease is worth nothing after it. The lease ends with
// [ErrReleased]; Release, called after it, sends nothing and returns nil. Release
// the new lease.
//
// It never waits. The new lease is judged as an acquire beside all other entries,
// held and waiting. It is refused, with a [*ConflictError], if they are in its way,
// or before the time of [HoldAtLeast]. The lease then goes on as before.
//
// While a downgrade is under way the lease counts as not valid: Err is
// [ErrOutcomeUnknown], Remaining is 0, nothing renews it, and its other methods
// wait. Done stays open, and contexts of KeepAlive go on, until the lease ends.
// They end with it, also the context of a Do that holds the lease. Nothing
// renews the new lease until its own KeepAlive is called, with a context from
// outside.
//
// It returns
//   - the new lease and nil if it was granted;
//   - ErrConflict if it was refused: the lease goes on;
//   - [ErrLost] if the lock was not held any more;
//   - ErrOutcomeUnknown if nobody knows that: the lease has ended, and both entries
//     are removed in the background. Or ctx ended first. Call Release, which waits
//     for the answer. If it is refused, the lease goes on until then. A lease that is
//     granted is released in the background, and Release returns ErrLost: others may
//     have been let in since;
//   - the server's error if the server refused the command: the lease goes on.
//
// It is repeated until it is answered, ctx ends, or the server would let others in
// anyway. If other goroutines share the entry ([ShareInProcess]), and for a tag
// that is not one of the rules, it returns [ErrInvalidArgument], nothing is sent, and
// the lease stands.
func (l *Lease) Downgrade(ctx context.Context, tag string) (*Lease, error) {
	held, err := l.handle().Downgrade(ctx, tag)
	return (*Lease)(held), err
}

// Release releases the lock, in one command. A second call returns the same
// answer and sends nothing. It returns
//   - nil if the entry was there with this lease's fencing token: nobody was let
//     in while it was held;
//   - [ErrLost] if it was not, or if it is known to have been taken from the lease
//     before: others may have been let in;
//   - [ErrOutcomeUnknown] if nobody knows whether others were let in, or ctx ended
//     first;
//   - the driver's error alone if the server refused the release, or if it could not
//     be sent, and the lease's time is not up: the entry stands, and nobody was let in.
//     If the time is up, the error is an ErrOutcomeUnknown too. In both cases Release
//     may be called again. Without that the entry expires by itself.
//
// These answers know of an entry that an operator has removed (package admin), or that
// another user of its token has resumed ([Lease.Detach]), only if the server has looked
// for it: a release that was refused or not sent has not. After a lost reply, the repeat
// of a release can't distinguish an operator's removal from its own.
//
// So others were certainly kept out, until the lease's end by Release, by another
// method that ends it, or until this call has returned, unless the error is an
// ErrLost or an ErrOutcomeUnknown.
//
// The release goes on after the end of ctx: it is repeated in the background
// until it is answered or the server would let others in anyway.
//
// After an acquire with [HoldAtLeast] others are kept out until its time, also
// if the lock was released before.
func (l *Lease) Release(ctx context.Context) error {
	return l.handle().Release(ctx)
}
