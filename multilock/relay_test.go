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

// relayTTL is so long that no entry expires in a test, and that a waiter doesn't
// poll while its own process has the lock.
const relayTTL = time.Hour

// relay is a holder of one Locker and its successor. The test controls the
// network's faults and the machine's clocks.
type relay struct {
	*place
	turned
	net       *faultnet.Net
	locks     *multilock.Locker
	holder    doclock.Lease
	successor *pending[doclock.Lease]
	cancel    context.CancelFunc // of the successor
}

// relay makes a relay whose holder has a lease under the tag.
func (p *place) relay(rules relations.Rules, tag string, opts ...doclock.Option) *relay {
	p.Helper()
	r := &relay{place: p, net: faultnet.New()}
	coll := r.Through(options.Client().SetDialer(r.net).SetRetryWrites(false))
	r.locks = r.locker(coll, rules, append([]doclock.Option{doclock.TTL(relayTTL), waitTTL(relayTTL), r.option()}, opts...)...)
	r.holder = r.try(r.locks, tag)
	return r
}

// queue makes a waiter under the tag wait for the document.
func (r *relay) queue(tag string) {
	r.Helper()
	var ctx context.Context
	ctx, r.cancel = context.WithTimeout(context.Background(), patience) // and not the relayTTL
	r.Cleanup(r.cancel)
	r.successor = acquire(r, ctx, r.locks, tag)
	r.queued(r.locks, 1)
}

// inherited is the successor's lease.
func (r *relay) inherited() doclock.Lease {
	r.Helper()
	return r.granted(r.successor)
}

// remains checks the remaining time of the successor's lease, which counts from
// that time ago.
func (r *relay) remains(lease doclock.Lease, ago time.Duration) {
	r.Helper()
	const resolution = time.Millisecond // of the server's clock
	if got, want := lease.Remaining(), relayTTL-ago-resolution; got != want {
		r.Errorf("%v remain, want %v", got, want)
	}
}

// The commands that hand a lease over, and how much each adds to the document's
// total.
var handoffs = map[string]struct {
	release func(doclock.Lease) error
	adds    int32
}{
	"Release":           {func(l doclock.Lease) error { return l.Release(context.Background()) }, 0},
	"a classic update":  {func(l doclock.Lease) error { return l.UpdateAndRelease(context.Background(), plusOne) }, 1},
	"a pipeline update": {func(l doclock.Lease) error { return l.UpdateAndRelease(context.Background(), plusOneInAPipeline) }, 1},
}

var (
	plusOne            = bson.M{"$inc": bson.M{"total": 1}}
	plusOneInAPipeline = bson.A{bson.M{"$set": bson.M{"total": bson.M{"$add": bson.A{"$total", 1}}}}}
)

// eachHandoff runs body for each of them, in a relay of its own.
func eachHandoff(t *testing.T, body func(r *relay, release func() error, adds int32)) {
	for name, h := range handoffs {
		virtually(t, name, func(p *place) {
			r := p.relay(relations.Exclusive(), "write")
			r.queue("write")
			body(r, func() error { return h.release(r.holder) }, h.adds)
		})
	}
}

// total is the document's total.
func (p *place) total() int32 {
	p.Helper()
	return int32(p.Stored().Lookup("total").AsInt64())
}

// releasing runs a release in a goroutine beside the test.
func (r *relay) releasing(release func() error) *pending[struct{}] {
	return begin(r, func() (struct{}, error) { return struct{}{}, release() })
}
