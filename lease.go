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
// are serialised among themselves, renewals run between them, and giving the
// lock away waits for both. The zero Lease behaves as lost.
//
// Two things end a lease. The holder's belief ([Lease.Done], [Lease.Err]) ends
// a TTL after the last renewal was sent, by this machine's clocks, and that is
// before the server lets anybody in. The server's verdict is the presence of
// the entry in the document: it is given by every command, and wins. So
// [Lease.Update] and [Lease.Release] are sent even after the local end, and
// succeed if nobody was let in meanwhile. Once the server has said that the
// entry is gone, the lease stays lost: nothing is written under it any more,
// and Release returns [ErrLost] whatever becomes of its own command.
//
// A caller whose context ends during a command gets its answer at once, with
// [ErrOutcomeUnknown]; the command runs to its end in the background, and the
// lease's next one waits for it.
type Lease lease.Handle

func (l *Lease) handle() *lease.Handle { return (*lease.Handle)(l) }

// ID is the entry's id in the document, unique to this lease.
func (l *Lease) ID() uuid.UUID { return l.handle().ID() }

// Tag is the tag that the lease was acquired under.
func (l *Lease) Tag() string { return l.handle().Tag() }

// Fence is the lease's token: on one document, tokens increase from grant to
// grant, so whatever is written under a lease can be ordered by it elsewhere.
func (l *Lease) Fence() int64 { return l.handle().Fence() }

// DocumentID is the _id of the locked document.
func (l *Lease) DocumentID() bson.RawValue { return l.handle().DocumentID() }

// Guard is a filter that matches the document as long as the lock is held in
// it: {_id: …, "lock.tags.<tag>": {$elemMatch: {id: …, fence: …}}}. It serves
// any write of the holder's own, in bulk or in a transaction too, with two
// exceptions: never use it with an upsert, nor with the positional operator
// `.$`, for the server may take the position from the lock's array. It doesn't
// number the write: one that is sent again after a lost reply is applied again,
// as [Lease.Update] is not. The Guard of a released lease matches nothing.
func (l *Lease) Guard() bson.D { return l.handle().Guard() }

// Remaining is how long the holder may go on without a renewal; 0 when the
// lease is over.
func (l *Lease) Remaining() time.Duration { return l.handle().Remaining() }

// Done is closed when the holder may not believe in the lease any longer: at
// the end of its time, when it is found lost, or when it is being released.
func (l *Lease) Done() <-chan struct{} { return l.handle().Done() }

// Err is nil while the holder may believe in the lease, and then [ErrLost] or
// [ErrReleased].
func (l *Lease) Err() error { return l.handle().Err() }

// KeepAlive renews the lease, three times a TTL, until it is released or lost
// or ctx ends, and returns a context that ends then too. Its cause is
// [ErrReleased], [ErrLost], or ctx's. A loss is told at the moment when the
// lease ends, not at the next renewal.
//
// A single lease is renewed by one findAndModify. The kept leases of one
// Locker are renewed together, up to a hundred by one update command, and a
// find tells which of them is lost where the update has not matched them all.
// One goroutine sees to all of them, and ends with the last. What it sends
// carries no values of ctx.
//
// Errors that may pass are retried and not taken for a loss. Called twice, the
// lease still renews once; each context is its own.
func (l *Lease) KeepAlive(ctx context.Context) context.Context {
	return l.handle().KeepAlive(ctx)
}

// Renew extends the lease to a TTL from now, in one command; [Lease.KeepAlive]
// does it by itself. Errors that may pass are retried while ctx and the lease
// last. It returns [ErrLost] where the entry is gone or the lease's time is
// up, and then sends nothing: a lease is never revived.
func (l *Lease) Renew(ctx context.Context) error {
	return l.handle().Renew(ctx)
}

// Update applies an update to the locked document if, and only if, the lock is
// still held in it, in one command; it keeps the lock. It is applied at most
// once, however often it has to be sent.
//
// It takes what the driver's UpdateOne takes (bson.D, bson.M, bson.Raw, a
// struct, a pipeline) with its options. All of it is encoded once, with the
// collection's registry and BSON options, in the caller's goroutine and before
// anything is sent: what the caller makes of its values once the call has
// returned is not seen, and a panic in a codec of the caller's surfaces here
// and leaves the lease as it is. It refuses, with [ErrInvalidArgument] and before
// anything is sent: what can't be encoded, replacements, paths that touch the
// lock field, the positional operator `.$`, upserts.
//
// It returns nil if the update was applied; [ErrLost] if the lock was not held
// any more, and then nothing was written; [ErrOutcomeUnknown] if the update may
// have been applied, or may be yet; or the server's error if the server refused
// it, and then the lease stands. It is never two of them: whether the lease is
// over as well says [Lease.Err].
func (l *Lease) Update(ctx context.Context, update any, opts ...options.Lister[options.UpdateOneOptions]) error {
	return l.handle().Update(ctx, update, opts...)
}

// UpdateAndRelease applies an update and gives the lock back in the same
// command: a read-modify-write under a lock takes two, with [Into] on the
// acquire. It takes and refuses what [Lease.Update] does; refused before
// sending, the lease stands. Its answers are Update's, and of the lock they say
// what [Lease.Release] does. Release, called after it, returns the same answer.
// If the server refuses the update, the lock is released plainly and the
// server's error returned, joined with [ErrLost] where the lock was lost; and
// of an ErrOutcomeUnknown the release tells only who calls Release.
//
// It is repeated until it is answered, ctx ends, or the server would let others
// in anyway. Where no server can be reached for 30 s, the driver's error is
// returned: nothing was written, and Release may be called.
func (l *Lease) UpdateAndRelease(ctx context.Context, update any, opts ...options.Lister[options.UpdateOneOptions]) error {
	return l.handle().UpdateAndRelease(ctx, update, opts...)
}

// Delete deletes the locked document if, and only if, the lock is still held in
// it, in one command, and ends the lease as released: the lock went with the
// document. A plain DeleteOne with [Lease.Guard] deletes as safely, but the
// release that follows finds nothing, and says [ErrLost].
//
// It returns nil if the document was deleted by it; ErrLost if the lock was not
// held any more, and then nothing was deleted; the server's error if the server
// refused, and then the lock is released plainly; and [ErrOutcomeUnknown] if
// the document may have been deleted, or may be yet. Release, called after it,
// returns the same answer. It is repeated until it is answered, ctx ends, or
// the server would let others in anyway.
//
// Where other holders share the entry ([ShareInProcess]) nothing is sent, and the lease
// stands: delete under a tag that excludes others.
func (l *Lease) Delete(ctx context.Context) error {
	return l.handle().Delete(ctx)
}

// Release gives the lock back, in one command. Released twice, it returns the
// same answer without a second one. It returns nil if the entry was there with
// this lease's token, which means that nobody was let in while it was held;
// [ErrLost] if it was not; and [ErrOutcomeUnknown] if that can't be told, or
// ctx ended first. The release itself outlives ctx: it goes on in the
// background until it is answered or the server would let others in anyway.
func (l *Lease) Release(ctx context.Context) error {
	return l.handle().Release(ctx)
}
