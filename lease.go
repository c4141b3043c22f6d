package doclock

import (
	"context"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Lease is a lock that was granted. It is safe for concurrent use. Its writes run
// one after the other, renewals run beside them, and a release waits for both. The
// zero Lease behaves as lost.
//
// Two things end a lease. The first is its validity on this machine ([Lease.Done],
// [Lease.Err]): it ends a TTL after the last renewal was sent, before the server
// lets anybody in. The second is the server's answer: every command says whether the
// entry is still in the document, and that counts. So [Lease.Update] and
// [Lease.Release] are sent even after the end of the validity, and succeed if nobody
// was let in meanwhile. Once a command has found no entry, the lease stays lost:
// nothing is written under it any more, and Release returns [ErrLost].
//
// If ctx ends before a method has sent its command, the error is ctx's, nothing is
// sent, and the lease stands. If ctx ends during the command, the method returns at once, with
// [ErrOutcomeUnknown]. The command runs to its end in the background, and the
// lease's next command waits for it. (A [Lease.Release] is always sent.) Once the lease is
// released, detached or downgraded, its other commands are not sent and return
// [ErrReleased]. In a context with a running transaction every command returns
// [ErrInTransaction].
type Lease lease.Handle

func (l *Lease) handle() *lease.Handle { return (*lease.Handle)(l) }

// ID is the entry's id in the document, unique to this lease. Only goroutines that
// share an entry ([ShareInProcess]) have leases with the same ID.
func (l *Lease) ID() uuid.UUID { return l.handle().ID() }

// Tag is the tag that the lease was acquired under.
func (l *Lease) Tag() string { return l.handle().Tag() }

// Fence is the lease's fencing token. On one document the tokens increase from grant
// to grant. So another place can put writes under the leases in order.
//
// If the tag excludes itself, that place should reject a write whose token is
// smaller than the greatest that it has seen: its lease is over. Do not do that if
// leases of the tag are held at the same time, as readers' are: a reader with a
// smaller token may well finish after one with a greater, and both hold the lock.
// Compare their tokens only with those of tags that exclude them.
func (l *Lease) Fence() int64 { return l.handle().Fence() }

// DocumentID is the _id of the locked document.
func (l *Lease) DocumentID() bson.RawValue { return l.handle().DocumentID() }

// Guard is a filter that matches the document while this lease's entry is in it:
// {_id: …, "lock.tags.<tag>": {$elemMatch: {id: …, fence: …}}}. The Guard of a
// released lease matches nothing. Use it for writes of your own, also in bulk or in
// a transaction, but never
//
//   - with an upsert;
//   - with the positional operator `.$`: the server may take the position from the
//     lock's array;
//   - with ReplaceOne or another replacement of the document: it is applied, and
//     erases the locks of all holders, so that others are let in.
//
// Such a write has no number. If you send it again after a lost reply, it is applied
// again, unlike a [Lease.Update].
func (l *Lease) Guard() bson.D { return l.handle().Guard() }

// Remaining is how long the lease is valid without a renewal, or 0 when it is over.
func (l *Lease) Remaining() time.Duration { return l.handle().Remaining() }

// Done is closed at the end of the validity: the lease's time is up, the lease was
// found lost, a command is sent that releases or detaches it, or it was downgraded.
func (l *Lease) Done() <-chan struct{} { return l.handle().Done() }

// Err is nil while the lease is valid. After that it is [ErrLost] or [ErrReleased].
// While a [Lease.Downgrade] is under way it is [ErrOutcomeUnknown].
func (l *Lease) Err() error { return l.handle().Err() }

// KeepAlive renews the lease in the background, each third of its TTL, and returns a
// context. Both end when the lease is released or lost, or ctx ends. The context's
// cause is [ErrReleased], [ErrLost], or ctx's. After a loss it ends at once, and not
// at the next renewal. Do the work with this context:
//
//	ctx = lease.KeepAlive(ctx)
//	err = work(ctx) // is cancelled when the lease ends
//	err = errors.Join(err, lease.Release(context.WithoutCancel(ctx)))
//
// A single lease is renewed by one findAndModify. The leases of one Locker that are
// kept alive are renewed together: one update command renews up to a hundred of
// them. If it has not matched them all, a find shows which are lost. One goroutine
// does this for all of them, and ends with the last. Its commands carry no values of
// ctx.
//
// A renewal that fails is repeated while the lease is valid, and is no loss by
// itself. Several calls renew the lease once, and each returns a context of its own.
func (l *Lease) KeepAlive(ctx context.Context) context.Context {
	return l.handle().KeepAlive(ctx)
}

// Renew extends the lease to a TTL from now, or to the end of [HoldAtMost], in one
// command. [Lease.KeepAlive] does it by itself. After an error that may pass, the
// command is repeated for 30 s, but not beyond the end of ctx or of the lease.
//
// It returns
//   - nil if the lease was extended;
//   - [ErrLost] if the entry is gone, or the lease's time is up: a lease is never
//     revived, and nothing is sent after its time;
//   - [ErrOutcomeUnknown] if ctx ended first: the lease may have been extended;
//   - the driver's error if the server refused it, or no attempt was answered: the
//     lease goes on until its time is up.
func (l *Lease) Renew(ctx context.Context) error {
	return engine.Raise(l.handle().Renew(ctx))
}

// Update applies an update to the locked document if, and only if, the lock is still
// held in it, in one command. It keeps the lock. A call's update is applied at most
// once, however often the library has to send it. A second call is a second update,
// also after an ErrOutcomeUnknown.
//
// It takes what the driver's UpdateOne takes (bson.D, bson.M, bson.Raw, a struct, a
// pipeline), with its options. Before it sends anything, it encodes all of it in the
// caller's goroutine, with the collection's registry and BSON options. So later
// changes of the values have no effect, and a panic in a codec reaches the caller
// and leaves the lease as it is. It refuses with [ErrInvalidArgument], and sends
// nothing: what can't be encoded, replacements, paths that touch the lock field, the
// positional operator `.$`, upserts.
//
// It returns
//   - nil if the update was applied;
//   - [ErrLost] if the lock was not held any more: nothing was written;
//   - [ErrOutcomeUnknown] if the update may have been applied, or may be yet;
//   - the driver's error if the server refused the update, or none could be reached
//     for 30 s: nothing was written. [Lease.Err] says whether the lease is over as
//     well.
//
// It is never two of them.
func (l *Lease) Update(ctx context.Context, update any, opts ...options.Lister[options.UpdateOneOptions]) error {
	return engine.Raise(l.handle().Update(ctx, update, opts...))
}

// UpdateAndRelease applies an update and releases the lock in the same command. So a
// read-modify-write under a lock takes two commands, with [Into] on the acquire. It
// takes and refuses what [Lease.Update] does; if it refuses, the lease stands.
//
// It returns
//   - nil if the update was applied: nobody was let in before it;
//   - [ErrLost] if the lock was not held any more: nothing was written;
//   - [ErrOutcomeUnknown] if the update may have been applied, or may be yet. Nobody
//     knows whether others were let in;
//   - the server's error if the server refused the update: nothing was written. The
//     lock is then released by a command of its own, and the error is joined with
//     ErrLost or ErrOutcomeUnknown if that release says so;
//   - the driver's error if no server could be reached for 30 s, joined with
//     ErrOutcomeUnknown if the lease's time is up: nothing was written, and Release
//     may be called.
//
// Otherwise Release, called after it, sends nothing and returns the same answer. If
// ctx ended first, it waits for the answer. After a refused update it returns what
// became of the lock.
//
// The command is repeated until it is answered, ctx ends, or the server would let
// others in anyway. If other goroutines share the entry ([ShareInProcess]), it
// writes, and leaves the lock to them.
func (l *Lease) UpdateAndRelease(ctx context.Context, update any, opts ...options.Lister[options.UpdateOneOptions]) error {
	return engine.Raise(l.handle().UpdateAndRelease(ctx, update, opts...))
}

// Delete deletes the locked document if, and only if, the lock is still held in it,
// in one command, and ends the lease as released. The lock is deleted with the
// document, also before the time of [HoldAtLeast]. (A DeleteOne with [Lease.Guard]
// deletes as safely, but the release that follows finds nothing, and returns
// [ErrLost].) By the lease of a token it waits while that of an earlier user, who has
// not detached, may be valid. If that is for longer than its own time, it fails.
//
// It returns
//   - nil if it deleted the document;
//   - ErrLost if the lock was not held any more: nothing was deleted;
//   - [ErrOutcomeUnknown] if the document may have been deleted, or may be yet;
//   - the server's error if the server refused the delete: nothing was deleted, and
//     the lock is then released by a command of its own;
//   - the driver's error if no server could be reached for 30 s, joined with
//     ErrOutcomeUnknown if the lease's time is up: nothing was deleted, and Release
//     may be called.
//
// Otherwise Release, called after it, returns the same answer. After a refused
// delete it returns nil if the lock was released. The delete is repeated until it is
// answered, ctx ends, or the server would let others in anyway.
//
// All other entries go with the document. Leases held beside this one would still
// count as valid, while another document of this _id is made and locked. So the tag
// must exclude all others: every tag of the rules, itself included, whichever came
// first, and with Allow 0. Under any other tag Delete returns [ErrInvalidArgument] and
// sends nothing, and the lease stands.
func (l *Lease) Delete(ctx context.Context) error {
	return engine.Raise(l.handle().Delete(ctx))
}

// Detach ends the lease here and leaves its entry to the users of a token, in one
// command, which extends the entry to a TTL from now. A user of the token can make a
// lease of the entry by a Locker's Resume, in this or another process, and can
// extend the entry by Touch. As the command is sent, the lease ends with
// [ErrReleased], and Done is closed. A write in doubt may still be applied once, but
// only before the next Resume.
//
// The token is a text in the alphabet of URLs. It has the tag and a random key, and
// nothing else: who shows it says which document he means, and for how long the entry
// is extended. The token lets its bearer resume and release the lock: keep it secret. A
// lease that was itself resumed gives the same token again.
//
// It returns
//   - the token and nil if the entry was there;
//   - [ErrLost] if it was not: others may have been let in;
//   - the token and [ErrOutcomeUnknown] if nobody knows that, or ctx ended first. A
//     resume shows it. Instead of using the token, call Release: it ends the entry,
//     detached or not;
//   - the driver's error, without a token, if the server refused it, or none could
//     be reached for 30 s: the entry stands, and Detach or Release may be called. If
//     the lease's time is up, it is an ErrOutcomeUnknown too: others may have been
//     let in.
//
// After a Detach that returned nil or ErrLost, Release sends nothing and returns the
// same. So a deferred Release does not end what was detached. The detach is repeated
// until it is answered, ctx ends, or the server would let others in anyway.
//
// If other goroutines share the entry ([ShareInProcess]), and after an acquire with
// [HoldAtMost], Detach returns [ErrInvalidArgument] and sends nothing, and the lease
// stands. No goroutine joins the entry after the detach was sent.
func (l *Lease) Detach(ctx context.Context) (token string, err error) {
	token, err = l.handle().Detach(ctx)
	return token, engine.Raise(err)
}

// Downgrade replaces the lease by one of another tag, in one command. No other
// client gets the lock in between. The tag is any of the Locker's, not only a weaker
// one. The new lease has an ID and a fencing token of its own, and the same owner.
// Its validity counts from the send. Its TTL is that of its tag, or the [TTL] of the
// acquire. A token of the old lease is worth nothing any more. The old lease ends
// with [ErrReleased], and its Release sends nothing and returns nil. Release the new
// lease.
//
// A downgrade never waits. Like an acquire that arrives, it is refused, with a
// [*ConflictError], if other entries are in its way, held or waiting. Before the
// time of [HoldAtLeast] it is refused, too. The lease then goes on as before.
//
// While a downgrade is under way the lease is not valid: Err is [ErrOutcomeUnknown],
// Remaining is 0, nothing renews it, and its other methods wait. Done stays open,
// and the contexts of KeepAlive go on, until the lease ends. They end with it,
// but not the context of a Do that holds the lease. Nothing renews the new lease
// until its own KeepAlive is called, with a context from outside.
//
// It returns
//   - the new lease and nil if it was granted;
//   - [ErrConflict] if it was refused: the lease goes on;
//   - [ErrLost] if the lock was not held any more;
//   - [ErrOutcomeUnknown] if no attempt was answered: the lease has ended, and both
//     entries are removed in the background;
//   - ErrOutcomeUnknown if ctx ended first. Call Release, which waits for the
//     answer. If it is a refusal, Release releases the lease. If it is a grant, the
//     new lease is released in the background, and Release returns ErrLost: others
//     may have been let in;
//   - the driver's error if the server refused the command, or none could be reached
//     for 30 s: the lease goes on.
//
// It is repeated until it is answered, ctx ends, or the server would let others in
// anyway. If other goroutines share the entry ([ShareInProcess]), or the tag is not
// one of the rules, it returns [ErrInvalidArgument] and sends nothing, and the lease
// stands.
func (l *Lease) Downgrade(ctx context.Context, tag string) (*Lease, error) {
	held, err := l.handle().Downgrade(ctx, tag)
	return (*Lease)(held), engine.Raise(err)
}

// Release releases the lock, in one command. It returns
//   - nil if the entry was there with this lease's fencing token: nobody was let in
//     while it was held;
//   - [ErrLost] if it was not, or if it is known that somebody took the entry
//     before: others may have been let in;
//   - [ErrOutcomeUnknown] if nobody knows whether others were let in, or ctx ended
//     first;
//   - the driver's error alone if the server refused the release, or none could be
//     reached for 30 s, and the lease's time is not up: the entry stands, and nobody
//     was let in. If the time is up, or a Downgrade before had an unknown outcome,
//     the error is an ErrOutcomeUnknown too. In both cases Release may be called
//     again. Otherwise the entry expires by itself.
//
// So without an ErrLost or an ErrOutcomeUnknown, nobody was let in until the lease
// was released, or until this call has returned. Any other second call sends
// nothing: it returns the same answer, or waits for it if ctx ended first.
//
// An operator (package admin) or another user of the lease's token ([Lease.Detach])
// may have taken the entry. Release knows of it only if the server has looked for
// the entry; a release that was refused or not sent does not know.
//
// The release goes on after the end of ctx: it is repeated in the background until
// it is answered or the server would let others in anyway. If ctx has ended before the
// call, as in a defer, Release waits by itself, for an [AttemptTimeout] at most. After an acquire with
// [HoldAtLeast], others are kept out until its time, also after the release.
func (l *Lease) Release(ctx context.Context) error {
	return engine.Raise(l.handle().Release(ctx))
}
