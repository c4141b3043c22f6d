package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// commander sends single commands, all through one client.
type commander struct {
	plain
	servers  *servers
	wire     wire
	write    *writelock.Locker
	fair     *multilock.Locker
	monglock monglockWrite
}

// command is one kind of command. prepare makes a document ready for it. The
// commands of prepare and after are not measured.
type command struct {
	name    string
	prepare func(ctx context.Context, key string) (prepared, error)
}

type prepared struct{ send, after func(context.Context) error }

// ownCommand reports whether the command is one of ours, and not a rival's.
func ownCommand(name string) bool {
	return !strings.HasPrefix(name, "plain") && !strings.HasPrefix(name, "monglock")
}

// runCommands measures the cost of each command, in blocks that follow a block
// of plain commands on the same documents.
func runCommands(ctx context.Context, b *bench) error {
	rounds, block := pick(b, 20, 4), pick(b, 24, 10)
	c, err := openCommander(&b.servers)
	if err != nil {
		return err
	}
	defer c.close()
	all := c.commands()
	var blanks []any
	for _, k := range all {
		for i := range block {
			blanks = append(blanks, blank(k.key(i), small))
		}
	}
	if _, err := c.docs.InsertMany(ctx, blanks); err != nil {
		return err
	}
	paid := map[string][]beside{}
	for n := -1; n < rounds; n++ { // the first one warms up
		for _, k := range all {
			one, err := c.block(ctx, k, block)
			if err != nil {
				return fmt.Errorf("%s: %w", k.name, err)
			}
			if n >= 0 {
				paid[k.name] = append(paid[k.name], one)
			}
		}
	}
	for _, k := range all {
		b.price(k.name, paid[k.name])
	}
	return nil
}

func openCommander(s *servers) (*commander, error) {
	c := &commander{servers: s}
	if err := c.open(s, ttl, options.Client().SetDialer(&c.wire)); err != nil {
		return nil, err
	}
	var err, err2 error
	c.write, err = writelock.New(c.docs, doclock.TTL(ttl))
	c.fair, err2 = multilock.New(c.docs, relations.Fair(), doclock.TTL(ttl))
	c.monglock.client, c.monglock.docs, c.monglock.ttl = c.client, c.docs, ttl
	return c, errors.Join(err, err2)
}

func (c *commander) close() {
	closeLocker(c.write)
	closeLocker(c.fair)
	c.base.close()
}

// commands are all kinds. "handoff" is a release that grants the lock to a
// waiter of the same process.
func (c *commander) commands() []command {
	inc := bson.M{"$inc": bson.M{"count": 1}}
	return []command{
		{"plain", c.bare(c.increment)},
		{"plain-pipeline", c.bare(c.pipeline)},
		{"acquire", c.acquire},
		{"acquire-refused", c.held(func(ctx context.Context, l *doclock.Lease) error {
			_, err := c.write.TryAcquire(ctx, bson.M{"_id": l.DocumentID()})
			return conflict(err)
		})},
		{"confirm", c.confirm},
		{"renew", c.held(func(ctx context.Context, l *doclock.Lease) error { return l.Renew(ctx) })},
		{"update", c.held(func(ctx context.Context, l *doclock.Lease) error { return l.Update(ctx, inc) })},
		{"update-and-release", c.held(func(ctx context.Context, l *doclock.Lease) error { return l.UpdateAndRelease(ctx, inc) })},
		{"release", c.held(func(ctx context.Context, l *doclock.Lease) error { return l.Release(ctx) })},
		{"handoff", c.handoff},
		{"monglock-acquire", c.monglockAcquire},
		{"monglock-release", c.monglockRelease},
	}
}

func (k command) key(i int) string { return fmt.Sprintf("commands %s %d", k.name, i) }

// block measures one block. If another command was sent too (a handoff before
// its successor was asleep), the block is measured again.
func (c *commander) block(ctx context.Context, k command, n int) (one beside, err error) {
	const patience = 10
	for range patience {
		if one.plain, err = c.row(ctx, command{k.name, c.bare(c.increment)}, n); err != nil {
			return one, err
		}
		if one.own, err = c.row(ctx, k, n); err != nil {
			return one, err
		}
		if one.own.commands == int64(n) && one.plain.commands == int64(n) {
			return one, nil
		}
	}
	return one, fmt.Errorf("%d of them took %d commands", n, one.own.commands)
}

func (c *commander) row(ctx context.Context, k command, n int) (paid cost, err error) {
	var sends, afters []func(context.Context) error
	for i := range n {
		p, err := k.prepare(ctx, k.key(i))
		if err != nil {
			return paid, err
		}
		sends, afters = append(sends, p.send), append(afters, p.after)
	}
	if paid, err = c.measure(ctx, sends); err != nil {
		return paid, err
	}
	for _, after := range afters {
		if err := after(ctx); err != nil {
			return paid, err
		}
	}
	return paid, nil
}

func nothing(context.Context) error { return nil }

// bare commands need no preparation.
func (c *commander) bare(send func(context.Context, string) error) func(context.Context, string) (prepared, error) {
	return func(_ context.Context, key string) (prepared, error) {
		return prepared{func(ctx context.Context) error { return send(ctx, key) }, nothing}, nil
	}
}

// pipeline is the plain command as a pipeline of one stage.
func (c *commander) pipeline(ctx context.Context, key string) error {
	update := bson.A{bson.M{"$set": bson.M{"count": bson.M{"$add": bson.A{"$count", 1}}}}}
	return unlessDeadlocked(func() error { return c.docs.FindOneAndUpdate(ctx, bson.M{"_id": key}, update, onlyID).Err() })
}

func (c *commander) acquire(_ context.Context, key string) (prepared, error) {
	var lease *doclock.Lease
	return prepared{
		func(ctx context.Context) (err error) {
			lease, err = c.write.Acquire(ctx, bson.M{"_id": key})
			return err
		},
		func(ctx context.Context) error { return lease.Release(ctx) },
	}, nil
}

// held commands need a lease.
func (c *commander) held(send func(context.Context, *doclock.Lease) error) func(context.Context, string) (prepared, error) {
	return func(ctx context.Context, key string) (prepared, error) {
		lease, err := c.write.Acquire(ctx, bson.M{"_id": key})
		return prepared{func(ctx context.Context) error { return send(ctx, lease) }, lease.Release}, err
	}
}

// confirm sends confirms for an entry that stays waiting.
func (c *commander) confirm(ctx context.Context, key string) (p prepared, err error) {
	lease, err := c.fair.Acquire(ctx, bson.M{"_id": key}, "write")
	if err != nil {
		return p, err
	}
	ticket, err := c.fair.Enqueue(ctx, bson.M{"_id": key}, "write")
	return prepared{
		func(ctx context.Context) error { _, err := ticket.Confirm(ctx); return conflict(err) },
		func(ctx context.Context) error { return errors.Join(ticket.Cancel(ctx), lease.Release(ctx)) },
	}, err
}

func (c *commander) handoff(ctx context.Context, key string) (p prepared, err error) {
	lease, err := c.write.Acquire(ctx, bson.M{"_id": key})
	if err != nil {
		return p, err
	}
	type waited struct {
		lease *doclock.Lease
		err   error
	}
	next, received := make(chan waited, 1), c.wire.received.Load()
	go func() {
		lease, err := c.write.Acquire(ctx, bson.M{"_id": key})
		next <- waited{lease, err}
	}()
	for c.wire.received.Load() == received && ctx.Err() == nil {
		time.Sleep(100 * time.Microsecond)
	}
	time.Sleep(2 * time.Millisecond) // it was refused, and goes to sleep
	return prepared{lease.Release, func(ctx context.Context) error {
		w := <-next
		if w.err != nil {
			return w.err
		}
		return w.lease.Release(ctx)
	}}, nil
}

func (c *commander) monglockAcquire(_ context.Context, key string) (prepared, error) {
	var release unlock
	return prepared{
		func(ctx context.Context) (err error) { release, err = c.monglock.lock(ctx, key); return err },
		func(ctx context.Context) error { return release(ctx) },
	}, nil
}

func (c *commander) monglockRelease(ctx context.Context, key string) (prepared, error) {
	release, err := c.monglock.lock(ctx, key)
	return prepared{release, nothing}, err
}

// conflict checks that a command met a conflict.
func conflict(err error) error {
	switch {
	case errors.Is(err, doclock.ErrConflict):
		return nil
	case err == nil:
		return errors.New("it was granted, and should not")
	default:
		return err
	}
}
