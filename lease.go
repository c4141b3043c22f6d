package doclock

import (
	"context"
	"time"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Lease is a lock that was granted. A call that fails returns a nil one. It is safe
// for concurrent use: writes run one after the other, renewals run beside them, and a
// release waits for both. Embed it in a fake, don't implement it: methods will be added.
//
// Two things end a lease. Its validity on this machine (Done, Err, Remaining) ends a TTL
// after the last renewal was sent, before the server grants anybody the lock. And the server's
// answer counts: every command says whether the entry is still in the document. So
// Update and Release are sent even after the end of the validity, and succeed if nobody
// was granted meanwhile. Once a command has found no entry, the lease stays lost.
//
// Its commands return
//   - nil if the command was executed under the lock;
//   - [ErrLost] if the lock was not held any more: nothing was written;
//   - [ErrOutcomeUnknown] if the command may have been executed, or may be yet;
//   - the driver's error if the server refused it, or none could be reached for 30 s: it
//     was not executed, and [Lease.Err] says whether the lease is over as well.
//
// A command is repeated until it is answered or ctx ends, for 30 s at most, and its write
// is applied at most once. If ctx ends before it was sent, nothing is sent, the error is
// ctx's, and the lease stands. If ctx ends during it, the method returns at once, with
// ErrOutcomeUnknown; the command runs to its end, and the next one waits for it. A
// Release is always sent. Once the lease is released, detached or converted, the other
// commands are not sent and return [ErrReleased]. In a context with a running
// transaction every command returns [ErrInTransaction].
//
// UpdateAndRelease, Delete, Detach and Convert end the lease in the same command. They are
// repeated for as long, but not beyond the entry's time. A Release after them sends
// nothing: it returns the same answer, or waits for it. After a refused UpdateAndRelease
// or Delete the lock is released by a command of its own; the error is joined with its
// ErrLost or ErrOutcomeUnknown. If no server could be reached, Release may be called; if
// the lease's time is up then, the error is an ErrOutcomeUnknown, too.
type Lease interface {
	// ID is the entry's id in the document. Goroutines that share an entry
	// ([ShareInProcess]) have leases with the same ID, and so have the leases of a batch,
	// each in another document.
	ID() uuid.UUID

	// Tag is the tag that the lease was acquired under.
	Tag() string

	// Fence is the lease's fencing token. On one document it increases from grant to
	// grant, unless that is deleted, and made again at once at a member whose clock is
	// behind. If the tag excludes itself, another place can reject writes whose token is
	// smaller than the greatest that it has seen. Compare the tokens of tags that are
	// held at the same time, as readers' are, only with those of tags that exclude them.
	Fence() int64

	// DocumentID is the _id of the locked document.
	DocumentID() bson.RawValue

	// Guard is a filter that matches the document while this lease's entry is in it, for
	// writes of your own, also in bulk or in a transaction. It matches nothing once the
	// lease is released. Such a write has no number: sent again, it is applied again.
	// Never use Guard
	//   - with an upsert;
	//   - with the positional operator `.$`, which may take its position from the lock;
	//   - with a replacement of the document: it erases the locks of all holders.
	Guard() bson.D

	// Remaining is how long the lease is valid without a renewal, or 0 when it is over.
	Remaining() time.Duration

	// Done is closed at the end of the validity: the lease's time is up, the lease was
	// found lost, a command is sent that releases or detaches it, or it was converted.
	Done() <-chan struct{}

	// Err is nil while the lease is valid. After that it is [ErrLost] or [ErrReleased].
	// While a Convert is under way it is [ErrOutcomeUnknown].
	Err() error

	// KeepAlive renews the lease in the background, each third of its TTL, until it is
	// released or lost or ctx ends, and returns a context that ends then: with cause
	// [ErrReleased], [ErrLost], or ctx's. After a loss it ends at once. Work with it:
	//
	//	ctx = lease.KeepAlive(ctx)
	//	err = work(ctx)
	//	err = errors.Join(err, lease.Release(context.WithoutCancel(ctx)))
	//
	// The leases of one Locker are renewed together, up to a hundred by one command. A
	// renewal that fails is repeated while the lease is valid, and is no loss by itself.
	KeepAlive(ctx context.Context) context.Context

	// Renew extends the lease to a TTL from now, or to the end of [HoldAtMost], in one
	// command; KeepAlive does it by itself. It is repeated for 30 s, but not beyond the
	// end of the lease. A lease whose time is up is never revived: that is an ErrLost,
	// and nothing is sent.
	Renew(ctx context.Context) error

	// Update applies an update to the locked document if the lock is still held in it,
	// in one command, and keeps the lock. Its error is never two of those above. A second
	// call is a second update, also after an ErrOutcomeUnknown.
	//
	// It takes what the driver's UpdateOne takes, and encodes all of it in the caller's
	// goroutine before anything is sent, with the collection's registry and BSON
	// options. [ErrInvalidArgument] are what can't be encoded, replacements, paths that
	// touch the lock field, the positional operator `.$`, upserts, sorts, and stages of a
	// pipeline but $set, $addFields and $unset.
	Update(ctx context.Context, update any, opts ...options.Lister[options.UpdateOneOptions]) error

	// UpdateAndRelease is Update and Release in one command (in two where the release may leave
	// a remainder, as after [HoldAtLeast], but for a pipeline). So a read-modify-write takes
	// two, with [Into]. What Update refuses leaves the lease as it is. If other goroutines
	// share the entry ([ShareInProcess]), the lock is left to them.
	UpdateAndRelease(ctx context.Context, update any, opts ...options.Lister[options.UpdateOneOptions]) error

	// WithTransaction runs fn in a transaction of the server that is committed while the lock
	// is held, or never: what fn writes with its context, in any collection, comes before
	// whoever is let in next. (In a sharded cluster that one reads it in a transaction, too: a
	// plain read may not see it yet.) Renewals go on beside it, and so do the transactions of
	// other holders. It sends two commands before fn's own, and then the commit; the first one
	// of a lease takes two more, and of a Locker three. It needs a replica set or a sharded
	// cluster: else it is an [ErrUnsupportedServer].
	//
	// Return the driver's errors from fn: after one that passes, as a write conflict, fn runs
	// again, in the first 30 s of the call. So let it do nothing else. Its context carries the
	// transaction, and ends with the lease. Until fn has returned, what ends the lease waits: fn
	// must not wait for it, by the outer context. With fn's own every command of a lease is
	// refused ([ErrInTransaction]). To write the locked
	// document, use [Lease.Guard], as the first thing: a renewal, or another holder's acquire, since
	// fn's begin is a write conflict.
	//
	// It returns nil if the transaction was committed, whatever becomes of the lease, and
	// ErrOutcomeUnknown if it may be. In both cases fn must not be run again; after the second
	// the lease is left to expire, and a release sends nothing. Any other error, fn's own too,
	// says that nothing was applied. Of a verdict that fn returns the error has the text alone.
	// If ctx ends before the commit, the transaction is aborted; after it, the call waits for an
	// answer, for two [AttemptTimeout] at most.
	//
	// A process that dies in fn keeps those out whom the lease excludes until the server ends
	// its transaction: after a minute, or what transactionLifetimeLimitSeconds says.
	WithTransaction(ctx context.Context, fn func(ctx context.Context) error) error

	// Delete deletes the locked document if the lock is still held in it, in one command,
	// also before the time of [HoldAtLeast]. The tag must exclude all tags of the rules,
	// itself included, with Allow 0, or a lease could go on beside another document of
	// this _id: else it is an [ErrInvalidArgument]. By the lease of a token it waits for
	// that time, and while the lease of an earlier user, who has not detached, may be valid.
	// If its own time is up first, nothing is deleted.
	Delete(ctx context.Context) error

	// Detach ends the lease here, leaves its entry to the users of a token, and extends
	// the entry to a TTL from now. A Locker's Resume makes a lease of the entry, in any
	// process, and Touch extends it. The token is a text in the alphabet of URLs: the tag
	// and a secret. Its bearer can release the lock: keep it safe. The document has a hash of
	// the secret alone. A lease that was itself resumed gives the same token again.
	//
	// With an ErrOutcomeUnknown there is a token, too, if the detach was sent. A resume shows
	// the outcome, unless ctx ended and the command is still under way: it may make the token
	// good yet. Call Release instead to end the entry, detached or not. [ErrInvalidArgument]
	// is a Detach of an entry that others share ([ShareInProcess]), or with a [HoldAtMost].
	Detach(ctx context.Context) (token string, err error)

	// Convert replaces the lease by one of another tag of the rules, in one command,
	// and grants nobody in between. The new lease has an ID and a fencing token of its
	// own. Release that one. Its TTL is its tag's, or the [TTL] of the acquire.
	//
	// It never waits. Only entries that are held refuse it, with an [ErrConflict], and those
	// that wait stay behind it, however often the lease is converted. It is also refused
	// before the time of [HoldAtLeast]. Refused, the lease goes on. While it is under way the
	// lease is not valid, nothing renews it, and its other methods wait. The contexts of
	// KeepAlive end with the old lease; that of a Do goes on, but is not the new lease's:
	// nothing renews it, and an acquire with this context waits for it.
	//
	// If its outcome is unknown, the lease has ended, and both entries are removed in the
	// background. After a transaction of unknown outcome nothing is sent, and the lease goes
	// on. If ctx ended first, call Release: it releases the lease, or returns
	// ErrLost if the new one was granted, and released. [ErrInvalidArgument] are an
	// unknown tag, and an entry that others share ([ShareInProcess]).
	Convert(ctx context.Context, tag string) (Lease, error)

	// Release releases the lock, in one command. Without an ErrLost or an
	// ErrOutcomeUnknown nobody was granted until the lease was released, or until this
	// call has returned. If it is the driver's error, Release may be called again, or
	// the entry expires by itself. Any other second call sends nothing: it returns the
	// same answer, or waits for it if ctx ended first.
	//
	// It goes on after the end of ctx, until it is answered, for 30 s at most or until the
	// server would let others in anyway. If ctx has ended before the call, as in a defer,
	// Release waits by itself, for an [AttemptTimeout] at most. After an acquire with
	// [HoldAtLeast], others are kept out until its time.
	Release(ctx context.Context) error

	// String has the lease's document, tag and fencing token, and the time that is left
	// or why the lease is over. [log/slog] logs the same as a group.
	String() string
}
