package faultnet

import (
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Kind is a message's fault.
type Kind int

const (
	// LoseRequest: the server never gets the command; the connection breaks.
	LoseRequest Kind = iota
	// LoseReply: the server executes the command; the connection breaks
	// before the reply arrives.
	LoseReply
	// Hold: the connection breaks at once, and the server gets the command
	// late, when Let is called.
	Hold
	// Stall: neither the command nor a reply gets through, and the connection
	// stays open until the client gives up.
	Stall
	// DelayReply: the command is executed at once, and its reply arrives when
	// Let is called.
	DelayReply
	// Repeat: the command is executed and answered, and executed once more, by
	// its own connection, when Let is called.
	Repeat
	// Rewrite: the command is executed, and the function of ArmRewrite makes
	// its reply.
	Rewrite
	// Cut: the connection is reset in the middle of the request.
	Cut
	// Refuse: the server never gets the command; the function of ArmRewrite
	// makes the reply from an empty document.
	Refuse
)

func (k Kind) String() string {
	return [...]string{"request lost", "reply lost", "request held", "stalled", "reply delayed", "request repeated", "reply rewritten", "connection reset in the request", "refused"}[k]
}

// Fault is one armed fault. It fires once.
type Fault struct {
	kind    Kind
	matches func(command string, body bson.Raw) bool
	rewrite func(bson.Raw) any

	once  sync.Once
	fired chan struct{}
	let   chan struct{}
	done  chan struct{} // the held or repeated command was executed
	mu    sync.Mutex
	err   error
}

// prepare makes the fault's channels.
func (f *Fault) prepare() *Fault {
	f.fired, f.let, f.done = make(chan struct{}), make(chan struct{}), make(chan struct{})
	return f
}

// Fired is closed when the fault has met its command: for LoseReply, DelayReply and
// Repeat after the command was executed.
func (f *Fault) Fired() <-chan struct{} { return f.fired }

// Let lets a held, delayed or repeated message go, and waits until the server
// has executed it.
func (f *Fault) Let() error {
	f.once.Do(func() { close(f.let) })
	<-f.done
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

func (f *Fault) finish(err error) {
	f.mu.Lock()
	f.err = err
	f.mu.Unlock()
	close(f.done)
}
