package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/bsonvalue"
	"github.com/doclock/doclock/internal/engine"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Lease is a lock that was granted: an entry that stands in a document. It knows for how
// long it is valid, what was written under it, and how it ended. It implements
// doclock.Lease, which has the contracts of its methods.
type Lease struct {
	*locker
	grant      engine.Grant
	unanswered []Unanswered // attempts of the acquire

	writing  attempt.Gate // one write at a time, or what ends the lease
	renewing attempt.Gate // one renewal at a time, or what ends the lease
	writes   int64
	sent     atomic.Int64           // commands, if there is an observer
	fences   atomic.Pointer[fences] // nil before the first transaction

	mu        sync.Mutex // of the fields below
	phase     phase
	key       uuid.UUID // that a detach has, or may have, written
	validity  validity
	limit     validity // HoldAtMost's, which nothing extends; zero without one
	watch     *time.Timer
	cause     error // of the end of the validity, or nil
	loss      error // that the server has declared, or nil
	done      chan struct{}
	followers []follower
	release   *verdict // of the command that ends the lease; nil before it
	doubt     error    // the lease is replaced, or may be: what a release returns
	unused    bool     // nobody has used the lock: its release leaves no remainder
	returned  bool     // the function that runs under the lease has returned: a release follows
	announced []*Announcement
	undecided error // of a transaction: no command may end the entry
}

// Give is what a call returns that acquires: a nil lease is a nil interface.
func Give(l *Lease, err error) (doclock.Lease, error) {
	if l == nil {
		return nil, err
	}
	return l, err
}

// phase is what the commands of a lease have come to, and so what may follow. The
// package documentation draws it.
type phase uint8

const (
	held      phase = iota // any command may be sent
	suspended              // a conversion is under way: the lease is not valid
	ending                 // its last command is under way: a release, UpdateAndRelease, Delete or Detach
	detached               // the entry was, or may have been, left to a token: only a release may be sent
	replaced               // a conversion has, or may have, ended the lease
	gone                   // the last command was executed, or may have been
)

func (p phase) String() string {
	return [...]string{"held", "suspended", "ending", "detached", "replaced", "gone"}[p]
}

// follows has the phases that may follow each. A command that was refused, or not
// sent, leads back.
var follows = map[phase][]phase{
	held:      {suspended, ending},
	suspended: {held, replaced},
	ending:    {held, detached, gone},
	detached:  {ending},
}

// become changes the phase. The lease is locked. Another order than that of the
// drawing is a fault of this package.
func (l *Lease) become(next phase) {
	if !slices.Contains(follows[l.phase], next) {
		panic(fmt.Sprintf("doclock: a lease that is %v becomes %v", l.phase, next))
	}
	l.phase = next
}

// isOpen says that the holder may give commands. He may not from the begin of a release
// or detach on, or after a conversion. One that was refused, or not sent, opens the lease
// again. The lease is locked.
func (l *Lease) isOpen() bool {
	return l.release == nil && (l.phase == held || l.phase == suspended)
}

func (l *Lease) ID() uuid.UUID { return l.grant.ID }

func (l *Lease) Tag() string { return l.grant.Tag }

func (l *Lease) Fence() int64 { return l.grant.Fence }

func (l *Lease) DocumentID() bson.RawValue { return l.grant.Pin.ID() }

// Base is the lease itself, of whoever has it.
func (l *Lease) Base() *Lease { return l }

// Place is where the lease's entry is.
func (l *Lease) Place() (*engine.Engine, engine.Pin) { return l.engine, l.grant.Pin }

func (l *Lease) Guard() bson.D {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isOpen() {
		return Nothing()
	}
	return l.engine.Guard(l.grant)
}

// Nothing is a filter that matches no document.
func Nothing() bson.D {
	return bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: bson.A{}}}}}
}

func (l *Lease) Remaining() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.check() != nil || l.phase == suspended {
		return 0
	}
	return max(0, l.leftAt(l.engine.Clocks()))
}

func (l *Lease) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.check(); err != nil || l.phase != suspended {
		return err
	}
	return fmt.Errorf("%w: %v: a conversion is under way", doclock.ErrOutcomeUnknown, l.name())
}

func (l *Lease) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.check()
	switch {
	case l.done != nil:
	case l.cause != nil:
		l.done = closed
	default:
		l.done = make(chan struct{})
	}
	return l.done
}

func (l *Lease) String() string { return Text(l) }

// LogValue implements [slog.LogValuer] with the same.
func (l *Lease) LogValue() slog.Value { return LogValue(l) }

// Text is a lease as its String has it.
func Text(l doclock.Lease) string {
	left := fmt.Sprint(l.Remaining().Round(time.Millisecond), " left")
	if err := l.Err(); err != nil {
		left = endText(err)
	}
	return fmt.Sprintf("lease %q on document %s, fence %d, %s", l.Tag(), bsonvalue.Readable(l.DocumentID()), l.Fence(), left)
}

// LogValue is a lease as a log has it.
func LogValue(l doclock.Lease) slog.Value {
	attrs := []slog.Attr{
		slog.String("document", bsonvalue.Readable(l.DocumentID())),
		slog.String("tag", l.Tag()),
		slog.Int64("fence", l.Fence()),
		slog.Duration("left", l.Remaining()),
	}
	if err := l.Err(); err != nil {
		attrs = append(attrs, slog.String("over", endText(err)))
	}
	return slog.GroupValue(attrs...)
}

// endText is why a lease is over, for those who know which lease.
func endText(err error) string {
	var lost *doclock.LostError
	if errors.As(err, &lost) {
		return "lost: " + string(lost.Reason)
	}
	for _, known := range []error{doclock.ErrReleased, doclock.ErrOutcomeUnknown} {
		if errors.Is(err, known) {
			return strings.TrimPrefix(strings.TrimPrefix(known.Error(), "doclock: "), "lock ")
		}
	}
	return err.Error()
}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Unused says of a lease that no caller has got that nobody used its lock: its
// release leaves no remainder. It comes before the release. The lease may be kept
// alive meanwhile.
func (l *Lease) Unused() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unused = true
}

// Standing is the lease's entry, as far as this process knows it, and whether the
// lease still holds it: it is neither lost nor being released, detached or
// converted.
func (l *Lease) Standing() (entry engine.Entry, standing bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.check() != nil || l.returned || l.release != nil || l.phase != held {
		return engine.Entry{}, false
	}
	now, entry := l.engine.Clocks(), l.grant.Entry
	entry.Expires = now.Wall.Add(l.validity.left(now) + l.engine.Tolerance).Truncate(time.Millisecond)
	return entry, true
}

// locker is what the leases of one Locker have in common.
type locker struct {
	engine     *engine.Engine // for what is pure, and for transactions
	commands   commands       // for what else is sent: the engine's, or a test's
	ops        *attempt.Group
	succession Succession
	leases     *Leases
	observer   *Observer // or nil
}

// commands are those that a lease sends, each one once. [engine.AsFailure] reads the error
// of a command that was not executed, or whose outcome is unknown.
type commands interface {
	Renew(context.Context, engine.Grant) (engine.Answer, error)
	RenewAll(context.Context, []engine.Grant) (engine.Answer, error)
	Standing(context.Context, []engine.Grant) (all []engine.Standing, sent engine.Reading, err error)

	Write(ctx context.Context, g engine.Grant, u *engine.Update, number int64) (engine.Answer, error)
	WriteAndRelease(context.Context, engine.Grant, *engine.Update) (engine.Answer, error)
	WriteAndHandOff(context.Context, engine.Grant, *engine.Update, engine.Successor) (engine.Answer, error)
	Handoff(context.Context, engine.Grant, engine.Successor) (engine.Answer, error)
	Release(context.Context, engine.Grant) (engine.Answer, error)
	ReleaseAll(context.Context, []engine.Grant) (missing int, err error)
	Delete(context.Context, engine.Grant) (engine.Answer, error)
	Detach(ctx context.Context, g engine.Grant, key uuid.UUID) (engine.Answer, error)
	Convert(ctx context.Context, g engine.Grant, k int64, to engine.Request) (engine.Answer, error)

	Read(context.Context, engine.Pin) (*engine.Image, error)
	Unreachable() error
}

// Leases are those of one Locker that are valid, or are being ended.
type Leases struct {
	locker
	keeper  keeper
	settles settles

	mu  sync.Mutex             // taken last
	all map[uuid.UUID][]*Lease // by their id: those of a batch have one
}

// NewLeases is for Lockers: the commands are sent with ops, succession learns how each
// lease ends, and the observer gets the events of the leases that are announced.
func NewLeases(e *engine.Engine, ops *attempt.Group, succession Succession, observer *Observer) *Leases {
	ls := &Leases{
		locker: locker{engine: e, commands: e, ops: ops, succession: succession, observer: observer},
		keeper: newKeeper(e), settles: settles{engine: e, all: map[uuid.UUID]*settling{}},
		all: map[uuid.UUID][]*Lease{},
	}
	ls.leases = ls
	return ls
}

// New makes the lease of what was granted. sent is when the command was sent that granted
// it, or earlier. The lease's [Ending] has the unanswered attempts of the acquire: they
// may make the entry again once it has gone.
func (ls *Leases) New(g engine.Grant, sent engine.Reading, unanswered ...Unanswered) *Lease {
	var limit validity
	if g.Most > 0 {
		limit = validity{from: sent, ttl: g.Most}
	}
	return ls.begin(g, validity{from: sent, ttl: g.TTL}, limit, unanswered)
}

// begin makes a lease, and watches the end of its validity.
func (ls *Leases) begin(g engine.Grant, v, limit validity, unanswered []Unanswered) *Lease {
	l := &Lease{
		locker: &ls.locker, grant: g, unanswered: unanswered, validity: v, limit: limit,
		writing: make(attempt.Gate, 1), renewing: make(attempt.Gate, 1),
	}
	ls.mu.Lock()
	ls.all[g.ID] = append(ls.all[g.ID], l)
	ls.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watch = time.AfterFunc(l.nextCheck(), func() { _ = l.err() })
	return l
}

// Valid reports whether a lease of this document with this id is here, and not over.
func (ls *Leases) Valid(document bson.RawValue, id uuid.UUID) bool {
	ls.mu.Lock()
	leases := slices.Clone(ls.all[id]) // their mutexes are taken before this one
	ls.mu.Unlock()
	return slices.ContainsFunc(leases, func(l *Lease) bool { return l.DocumentID().Equal(document) && !l.isOver() })
}

// Left is a lease that nobody has ended, and until when the server keeps it.
type Left struct {
	engine.Grant
	Until time.Time
}

// Left are the leases that are valid, or whose last command is not answered yet.
func (ls *Leases) Left() (all []Left) {
	ls.mu.Lock()
	leases := slices.Concat(slices.Collect(maps.Values(ls.all))...)
	ls.mu.Unlock()
	for _, l := range leases {
		if left := l.left() + l.engine.Tolerance; left > 0 {
			all = append(all, Left{l.grant, l.engine.Clocks().Wall.Add(left)})
		}
	}
	return all
}

func (ls *Leases) remove(l *Lease) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	id := l.grant.ID
	ls.all[id] = slices.DeleteFunc(ls.all[id], func(other *Lease) bool { return other == l })
	if len(ls.all[id]) == 0 {
		delete(ls.all, id)
	}
}

// Succession is the Locker, as a lease sees it that ends. It is called under no mutex
// of this package.
type Succession interface {
	// Next promises the lock to a waiter of this process: the Ending has its answer.
	// It is nil if none of them may have it.
	Next(engine.Grant) *engine.Successor

	// Ended is called after the verdict on each command that ends a lease, or may have
	// ended it.
	Ended(Ending)
}

// Ending is what has become of a lease's entry.
type Ending struct {
	Grant engine.Grant
	How   How

	// Answer is the successor's. With an image the lock was released, and the
	// outcome is the successor's: Granted since Sent, or not, as the image shows.
	// Without one nobody knows: the id may stand in the document, if it was Made.
	Answer engine.Answer
	Made   bool

	// Unanswered may still make their entries, or have left them in the document.
	Unanswered []Unanswered
}

// How is how a lease has ended.
type How uint8

// The ways in which a lease ends.
const (
	Released   How = iota // to nobody, or it may have been
	HandedOver            // or it may have been, to the successor
	Detached              // or it may have been: no release of this process ends the entry, which stays in the document
	Abandoned             // it has given way to an entry whose release has failed, and nobody repeats that
)

// Unanswered are attempts of unknown outcome to make a request's entry.
type Unanswered struct {
	Request  engine.Request
	Attempts int
	Last     time.Time // when the last one ended
}

// ended reports to the Locker how the lease has ended.
func (l *Lease) ended(e Ending) {
	if l.isOver() { // else its last command was not sent, and it goes on
		l.leases.remove(l)
	}
	e.Grant = l.grant
	l.succession.Ended(e)
}

// follower ends with a lease.
type follower interface{ ended(cause error) }

// follow makes f end when the lease ends, or returns why that has ended.
func (l *Lease) follow(f follower) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.check(); err != nil {
		return err
	}
	l.followers = append(l.followers, f)
	return nil
}

func (l *Lease) unfollow(f follower) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.followers = slices.DeleteFunc(l.followers, func(other follower) bool { return other == f })
}

// Follow has a context end with the lease, with its cause, until stop is called.
func (l *Lease) Follow(end context.CancelCauseFunc) (stop func()) {
	f := &ender{end}
	if err := l.follow(f); err != nil {
		end(err)
	}
	return func() { l.unfollow(f) }
}

// ender follows a lease, and doesn't keep it alive.
type ender struct{ end context.CancelCauseFunc }

func (e *ender) ended(cause error) { e.end(cause) }
