package faultnet

import (
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Kind is what happens to a message.
type Kind int

const (
	// LoseRequest: the server never sees the command; the connection breaks.
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
	// DelayReply: the command is executed at once, its reply arrives when Let
	// is called.
	DelayReply
	// Repeat: the command is executed and answered, and executed once more,
	// by a connection of its own, when Let is called.
	Repeat
	// Rewrite: the command is executed, and its reply is what the function
	// given to ArmRewrite makes of it.
	Rewrite
	// Cut: the connection is reset in the middle of the request.
	Cut
	// Refuse: the server never sees the command; the reply is what the
	// function given to ArmRewrite makes of an empty one.
	Refuse
)

func (k Kind) String() string {
	return [...]string{"request lost", "reply lost", "request held", "stalled", "reply delayed", "request repeated", "reply rewritten", "connection reset in the request", "refused"}[k]
}

// Fault is one fault that was armed. It fires once.
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

// Fired is closed when the fault has met its command: for LoseReply and
// DelayReply after the command was executed.
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
