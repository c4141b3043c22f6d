package waitqueue

import (
	"errors"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// hand is a clock in the test's hand.
type hand struct{ at time.Duration }

func newHand() *hand { return &hand{100 * time.Hour} }

func (h *hand) now() time.Duration   { return h.at }
func (h *hand) pass(d time.Duration) { h.at += d }

// noLeases are those of a process that holds none.
type noLeases struct{}

func (noLeases) Valid(uuid.UUID) bool   { return false }
func (noLeases) Reserve(uuid.UUID) bool { return false }

func newView() *view { return &view{clock: newHand().now, leases: noLeases{}} }

var errClosed = errors.New("closed")

// handQueues are queues on a hand's clock.
func handQueues(h *hand, rules relations.Rules) *Queues {
	return New(Config{Rules: rules, Now: h.now, Closing: make(chan struct{}), Closed: errClosed, Leases: noLeases{}})
}

// The document whose _id is 1.
var (
	pinOfOne = engine.Pin{{Key: "_id", Value: bson.RawValue{Type: bson.TypeInt32, Value: []byte{1, 0, 0, 0}}}}
	keyOfOne = Key(pinOfOne)
)

// request is one that began long ago: pauses are long.
func request(tag string, h *hand) Request {
	return Request{Request: engine.Request{Tag: tag, ID: uuid.New()}, Exact: true, Begun: h.now() - time.Hour}
}

// image is of document 1.
func image(fence int64, now time.Time, entries ...engine.Entry) *engine.Image {
	return &engine.Image{Now: now, Lock: engine.Lock{Fence: fence, Entries: entries}}
}

func heldBy(tag string, fence int64, expires time.Time) engine.Entry {
	return engine.Entry{Tag: tag, ID: uuid.New(), Seq: fence, Fence: fence, Expires: expires}
}
