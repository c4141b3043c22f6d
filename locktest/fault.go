package locktest

import (
	"slices"
	"sync"
	"time"

	"github.com/doclock/doclock/locktest/internal/store"
	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// faults are what the next commands of a [Server] meet.
type faults struct {
	mu sync.Mutex

	orders  [delayed + 1]order // by what commands meet
	refusal mongo.CommandError
	delay   time.Duration
}

// order is for the next commands of some kinds; 0 is any.
type order struct {
	left int
	only Kind
}

func orderOf(n int, only []Kind) order {
	o := order{left: n}
	for _, kind := range only {
		o.only |= kind
	}
	return o
}

// Fail makes the server refuse the next n commands with this error, without
// executing them. With kinds it counts only commands of these kinds, and the others
// pass: after
//
//	mem.Fail(1, mongo.CommandError{Code: 13}, locktest.Releases)
//
// a renewal or a clean-up that comes before the release is executed. Without kinds
// any command counts, also those of the background.
//
// A later call of the same method replaces this one, and n = 0 ends it. A command
// meets one fault: a refusal first, then a lost request, a lost reply, a delay. The
// library repeats a command of unknown outcome, and the driver repeats a read once,
// so a caller seldom sees one lost reply.
func (f *faults) Fail(n int, refusal mongo.CommandError, only ...Kind) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.orders[refused], f.refusal = orderOf(n, only), refusal
}

// LoseRequests breaks the connection of each of the next n commands, as Fail counts
// them, before the server gets it. The command is not executed, and its sender
// doesn't know.
func (f *faults) LoseRequests(n int, only ...Kind) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.orders[requestLost] = orderOf(n, only)
}

// LoseReplies breaks the connection of each of the next n commands, as Fail counts
// them, after the server has executed it. The sender doesn't know.
func (f *faults) LoseReplies(n int, only ...Kind) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.orders[replyLost] = orderOf(n, only)
}

// Delay makes each of the next n commands, as [Server.Fail] counts them, arrive
// later by d on the server's clock. If the sender's context ends first, the request
// still arrives, late: the server executes it before the first command that comes
// after its time.
func (f *faults) Delay(n int, d time.Duration, only ...Kind) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.orders[delayed], f.delay = orderOf(n, only), d
}

// fault is what one command meets.
type fault uint8

const (
	none fault = iota
	refused
	requestLost
	replyLost
	delayed
)

// unmarked are commands of the driver itself, which meet no fault, as its hello.
var unmarked = []string{"ping", "endSessions"}

// take is a command's fault, the first that is due for its kind, with the order's
// refusal and delay. It counts one less.
func (f *faults) take(command value.Document) (fault, bson.RawValue, time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for met := refused; met <= delayed; met++ {
		due := &f.orders[met]
		if due.left > 0 && (due.only == 0 || kindsOf(command)&due.only != 0) && !slices.Contains(unmarked, command[0].Key) {
			due.left--
			r := f.refusal
			return met, store.Refused(&value.Refusal{Code: r.Code, Name: r.Name, Message: r.Message, Labels: r.Labels}), f.delay
		}
	}
	return none, value.Missing, 0
}
