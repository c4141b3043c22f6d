package admin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Option changes how a function of this package works. Each function names its
// options, and refuses others as a [doclock.ErrInvalidArgument].
type Option struct {
	name string
	set  func(*config) error
}

type config struct {
	engine engine.Config
	rules  relations.Rules
	within *any
	idle   time.Duration
}

// Field is the name of the top-level field that holds the lock. Default "lock", as
// for [doclock.Field].
func Field(name string) Option {
	return Option{"Field", func(c *config) error { return doclock.Field(name).ApplyLocker(&c.engine) }}
}

// ShardKey names the fields of a sharded collection's key, as [doclock.ShardKey]
// does for a Locker. An [Entry] then has their values, and the commands that change
// its document go to one shard.
func ShardKey(fields ...string) Option {
	return Option{"ShardKey", func(c *config) error { return doclock.ShardKey(fields...).ApplyLocker(&c.engine) }}
}

// Rules are the rules of the programs that lock here. With them [Inspect] and
// [Entries] say which entries block which.
func Rules(rules relations.Rules) Option {
	return Option{"Rules", func(c *config) error {
		c.rules = rules.Clone()
		return rules.Validate()
	}}
}

// Within limits [Entries], [Remove] and [Sweep] to the documents that match the
// filter. An index can help with it.
func Within(filter any) Option {
	return Option{"Within", func(c *config) error { c.within = &filter; return nil }}
}

// MinIdle is the least time of [DeleteIdle]. No difference between two servers'
// clocks that doclock tolerates is as great. So the fencing tokens of a document
// that is made anew go on increasing.
const MinIdle = doclock.MaxClockTolerance

// DeleteIdle makes [Sweep] delete documents that hold nothing but a lock, and in
// which nothing was granted or joined for d, at least [MinIdle]. It is for
// collections of named locks, whose Lockers have [doclock.Upsert].
func DeleteIdle(d time.Duration) Option {
	return Option{"DeleteIdle", func(c *config) error {
		c.idle = d.Truncate(time.Millisecond)
		if d < MinIdle {
			return fmt.Errorf("%w: DeleteIdle is %v; give at least %v", doclock.ErrInvalidArgument, d, MinIdle)
		}
		return nil
	}}
}

// desk is one call's collection and options.
type desk struct {
	config
	engine *engine.Engine
	survey engine.Filter // of Within
}

// open checks what every function is given. takes are the options that the
// function knows beside Field and ShardKey.
func open(ctx context.Context, coll *mongo.Collection, function string, opts []Option, takes ...string) (*desk, error) {
	if coll == nil {
		return nil, fmt.Errorf("%w: the collection is nil", doclock.ErrInvalidArgument)
	}
	if engine.InTransaction(ctx) {
		return nil, fmt.Errorf("%w: call %s outside", doclock.ErrInTransaction, function)
	}
	d, err := choose(function, opts, takes...)
	if err != nil {
		return nil, err
	}
	if d.engine, err = engine.New(coll, nil, d.config.engine); err != nil {
		return nil, fmt.Errorf("%w: %w", doclock.ErrInvalidArgument, err)
	}
	if d.within != nil {
		if d.survey, err = d.engine.ParseFilter(*d.within); err != nil {
			return nil, fmt.Errorf("%w: the filter of Within: %w", doclock.ErrInvalidArgument, err)
		}
	}
	return d, nil
}

// choose reads the options of a call. The desk has no collection yet.
func choose(function string, opts []Option, takes ...string) (*desk, error) {
	takes = append(takes, "Field", "ShardKey")
	d := &desk{config: config{engine: engine.Config{Terms: engine.Terms{TTL: engine.DefaultTTL}, Field: engine.DefaultField}}}
	var faults []error
	for i, opt := range opts {
		switch {
		case opt.set == nil:
			faults = append(faults, fmt.Errorf("%w: option %d is empty; leave it out", doclock.ErrInvalidArgument, i))
		case !slices.Contains(takes, opt.name) && opt.name != "":
			faults = append(faults, fmt.Errorf("%w: %s has no option %s", doclock.ErrInvalidArgument, function, opt.name))
		default:
			faults = append(faults, opt.set(&d.config))
		}
	}
	return d, oneline.Join(faults...)
}

func (d *desk) bounds() engine.Attempts { return d.engine.Attempt(d.engine.TTL) }

// write sends a write once. Without an answer it ends after as long as a lease's commands are repeated.
func (d *desk) write(ctx context.Context, send func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, engine.DefaultRetryLimit)
	defer cancel()
	return send(ctx)
}

// surveyed is a survey, with the error that kept it from its begin.
func (d *desk) surveyed(ctx context.Context, s engine.Survey) (found iter.Seq2[*engine.Image, error]) {
	err := attempt.Begin(ctx, d.bounds(), func() (err error) { found, err = d.engine.Survey(ctx, s); return err })
	if err != nil {
		return func(yield func(*engine.Image, error) bool) { yield(nil, err) }
	}
	return found
}

// ErrNoEntry: the document has no such entry, or there is no such document. The
// entry was released, or has expired and was removed, or it was granted or resumed
// since and has another fencing token.
var ErrNoEntry = errors.New("doclock: no such entry")

// readError is the error of a read.
func readError(what string, err error) error {
	err = engine.Raise(err)
	switch engine.AsFailure(err).Cause {
	case engine.CauseForeign:
		return fmt.Errorf("%w: %w", doclock.ErrForeignLock, err)
	case engine.CauseUnsupported:
		return fmt.Errorf("%w: %w", doclock.ErrUnsupportedServer, err)
	default:
		return fmt.Errorf("doclock: %s: %w", what, err)
	}
}

// writeError is the error of a command that changes something.
func writeError(what string, err error) error {
	err = engine.Raise(err)
	if engine.AsFailure(err).Nothing {
		return readError(what, err)
	}
	return fmt.Errorf("%w: %s: %w", doclock.ErrOutcomeUnknown, what, err)
}
