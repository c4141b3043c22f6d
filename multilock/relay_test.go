package multilock_test

import (
	"context"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// relayTTL is so long that nothing in a relay is granted by an expiry, and
// that whoever knows that its own process has the lock doesn't ask.
const relayTTL = time.Hour

// promptly bounds what takes a moment, and for ever where nobody is told.
const promptly = 8 * time.Second

// relay is a holder and an heir of one Locker, on a network that fails on
// demand and a machine whose clocks are turned by hand.
type relay struct {
	*place
	turned
	net    *faultnet.Net
	locks  *multilock.Locker
	holder *doclock.Lease
	heir   *pending[*doclock.Lease]
	cancel context.CancelFunc // of the heir
}

// newRelay lets a lease be granted under the tag, by a table.
func newRelay(t testing.TB, rules relations.Rules, tag string, opts ...doclock.Option) *relay {
	t.Helper()
	r := &relay{place: newPlace(t), net: faultnet.New()}
	coll := r.via(options.Client().SetDialer(r.net).SetRetryWrites(false))
	r.locks = r.locker(coll, rules, append([]doclock.Option{doclock.TTL(relayTTL), doclock.WaitTTL(relayTTL), r.option}, opts...)...)
	r.holder = r.try(r.locks, tag)
	return r
}

// queue lets a waiter stand in line under the tag.
func (r *relay) queue(tag string) {
	r.Helper()
	var ctx context.Context
	ctx, r.cancel = context.WithTimeout(context.Background(), promptly)
	r.Cleanup(r.cancel)
	r.heir = acquire(r, ctx, r.locks, tag)
	r.standing(r.locks, 1)
}

// inherited is the heir's lease.
func (r *relay) inherited() *doclock.Lease {
	r.Helper()
	return r.granted(r.heir)
}

// remains demands what remains of the heir's lease if its time counts from
// some time ago.
func (r *relay) remains(lease *doclock.Lease, ago time.Duration) {
	r.Helper()
	const resolution = time.Millisecond // of the server's clock
	if got, want := lease.Remaining(), relayTTL-ago-resolution; got != want {
		r.Errorf("%v remain, want %v", got, want)
	}
}

func (r *relay) total() int32 {
	r.Helper()
	total, _ := r.raw().Lookup("total").AsInt64OK()
	return int32(total)
}

// The ways in which a lease is handed over, with the increments that each
// makes of the document's total.
var givings = map[string]struct {
	give func(*doclock.Lease) error
	adds int32
}{
	"Release":           {func(l *doclock.Lease) error { return l.Release(context.Background()) }, 0},
	"a classic update":  {func(l *doclock.Lease) error { return l.UpdateAndRelease(context.Background(), plusOne) }, 1},
	"a pipeline update": {func(l *doclock.Lease) error { return l.UpdateAndRelease(context.Background(), plusOneInAPipeline) }, 1},
}

var (
	plusOne            = bson.M{"$inc": bson.M{"total": 1}}
	plusOneInAPipeline = bson.A{bson.M{"$set": bson.M{"total": bson.M{"$add": bson.A{"$total", 1}}}}}
)

// eachGiving runs body for each of them, in a relay of its own.
func eachGiving(t *testing.T, body func(r *relay, give func() error, adds int32)) {
	for name, g := range givings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRelay(t, relations.Exclusive(), "write")
			r.queue("write")
			body(r, func() error { return g.give(r.holder) }, g.adds)
		})
	}
}

// giving gives the lock away beside the test.
func (r *relay) giving(give func() error) *pending[struct{}] {
	return begin(r, func() (struct{}, error) { return struct{}{}, give() })
}
