package engine

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Commands are the protocol's commands that an acquire, a wait and a lease use.
// An [Engine] sends them to the server, each one once. [AsFailure] reads the
// error of a command that was not executed, or whose outcome is unknown.
type Commands interface {
	Acquire(context.Context, Filter, Request) (Answer, error)
	Confirm(context.Context, Pin, Request) (Answer, error)

	Renew(context.Context, Grant) (Answer, error)
	RenewAll(context.Context, []Grant) (Answer, error)
	Look(ctx context.Context, g Grant, document bool) (Answer, error)
	Standing(context.Context, []Grant) (all map[uuid.UUID]Standing, sent Reading, err error)

	Write(ctx context.Context, g Grant, u *Update, number int64) (Answer, error)
	WriteAndRelease(context.Context, Grant, *Update) (Answer, error)
	WriteAndHandOff(context.Context, Grant, *Update, Successor) (Answer, error)
	Handoff(context.Context, Grant, Successor) (Answer, error)
	Release(context.Context, Grant) (Answer, error)
	Delete(context.Context, Grant) (Answer, error)

	Detach(ctx context.Context, g Grant, key uuid.UUID) (Answer, error)
	Resume(context.Context, Filter, Token, Request) (Answer, error)
	Touch(ctx context.Context, f Filter, k Token, ttl time.Duration) (Answer, error)
	Downgrade(ctx context.Context, g Grant, k int64, to Request) (Answer, error)

	Remove(ctx context.Context, f Filter, tag string, ids []uuid.UUID) (found []uuid.UUID, err error)
	Read(context.Context, Pin) (*Image, error)

	// Unreachable returns the reason why no command can be sent at present, or
	// nil.
	Unreachable() error
}

var _ Commands = (*Engine)(nil)
