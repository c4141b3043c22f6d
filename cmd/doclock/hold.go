package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/bsonvalue"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// run is the subcommand run, after its arguments were read.
func (c *cli) run(arg string, command []string, h held) error {
	t, err := parseTarget(arg)
	if err != nil {
		return err
	}
	path, err := lookPath(command[0])
	if err != nil {
		return err
	}
	if err := h.check(t); err != nil {
		return err
	}
	rules, tag, err := h.decision()
	if err != nil {
		return err
	}
	signals, stop := notified(signalsOfRun...)
	defer stop()
	withstand()
	coll, disconnect, err := c.connect()
	if err != nil {
		return err
	}
	defer disconnect()
	asking, answered := c.untilSilence(t, h)
	locks, err := c.locker(coll, rules, t, h, command[0], answered)
	if err != nil {
		return err
	}
	defer closed(locks)

	lease, err := acquire(asking, locks, t, tag, h, signals)
	answered()
	if err != nil {
		return c.notAcquired(err, t, h)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	g := guarded{lease: lease, kept: lease.KeepAlive(ctx), grace: h.grace, signals: signals, say: c.say}
	if h.limited {
		g.limit = time.Now().Add(h.most)
	}
	c.say(h.verbose, "acquired", "%s: acquired, fence %d", t.text, lease.Fence())
	ended := g.run(path, command, c.environment(lease))
	return c.released(lease, t, h, signals, ended, g.ended)
}

// check completes and checks the flags.
func (h *held) check(t target) error {
	life, what := h.ttl, "the TTL"
	if h.limited && h.most < life {
		life, what = h.most, "--at-most"
	}
	if !h.graceIsGiven {
		h.grace = life / 5
	}
	switch {
	case h.graceIsGiven && (h.grace < 0 || h.grace > life/2):
		return usage("--grace is %v; give at least 0 and at most half of %s, %v", h.grace, what, life/2)
	case h.create && !t.named:
		return usage("--create needs a NAME: a FILTER doesn't say what to make")
	case h.skip && t.named:
		return usage(`--skip needs a FILTER, which may match several documents, as in '{"state": "new"}'`)
	case h.sort != "" && t.named:
		return usage("--sort needs a FILTER, which may match several documents")
	}
	return nil
}

// lookPath finds the command before a lock is taken for it.
func lookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil, errors.Is(err, exec.ErrDot): // a path with "." in it is the user's choice, as for a shell
		return path, nil
	case errors.Is(err, os.ErrPermission), errors.Is(err, syscall.EISDIR):
		return "", &ending{code: exitNotExecutable, err: fmt.Errorf("the command can't be executed: %w", err)}
	default:
		return "", &ending{code: exitNoCommand, err: fmt.Errorf("there is no such command: %w", err)}
	}
}

// untilSilence is a context that ends if no server answers the acquire for --timeout.
func (c *cli) untilSilence(t target, h held) (ctx context.Context, answered func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	silence := time.AfterFunc(h.first, func() { cancel(&attempt.Over{After: h.first}) })
	said := c.sayLate(h, "asking", "%s: no answer so far", t.text)
	return ctx, func() {
		silence.Stop()
		said()
	}
}

// decision is the rules and the tag of the flags.
func (h *held) decision() (rules relations.Rules, tag string, err error) {
	switch {
	case h.n != "":
		rules, err = semaphore(h.n)
		return rules, "slot", err
	case h.rules != "":
		rules, err = readRules(h.rules)
		return rules, h.tag, err
	default:
		return relations.Exclusive(), writelock.Tag, nil
	}
}

// locker makes the Locker for the flags. When an acquire has to wait, it calls answered and
// says who is in the way.
func (c *cli) locker(coll *mongo.Collection, rules relations.Rules, t target, h held, command string, answered func()) (*multilock.Locker, error) {
	waits := func(_ context.Context, e doclock.Event) {
		if e.Kind != doclock.EventWaiting || e.How != "" {
			return
		}
		answered()
		text := t.conflict(e.Holders)
		if h.skip {
			text = t.text + ": " + errNoneFree.Error()
		}
		c.say(h.verbose || isTerminal(c.err), "waiting", "waiting: %s", oneline.Text(text))
	}
	opts := []doclock.Option{
		doclock.Field(c.field), doclock.TTL(h.ttl), doclock.OnEvent(waits),
		doclock.Owner(cmp.Or(h.owner, defaultOwner(command))),
	}
	if len(c.shardKey) > 0 {
		opts = append(opts, doclock.ShardKey(c.shardKey...))
	}
	if h.create || t.named && c.full() == defaultCollection {
		opts = append(opts, doclock.Upsert())
	}
	return multilock.New(coll, rules, opts...)
}

// defaultOwner names the process that to look for: this one, and its command.
func defaultOwner(command string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	const longest = 256 // of doclock.Owner
	owner := fmt.Sprintf("%s/%d/%s", host, os.Getpid(), filepath.Base(command))
	return strings.ToValidUTF8(owner[:min(len(owner), longest)], "?")
}

// closed lets the background clean up after an acquire that was given up.
func closed(locks *multilock.Locker) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	_ = locks.Close(ctx) // what is left expires
}

// acquire waits for the lock, until a signal ends the wait.
func acquire(ctx context.Context, locks *multilock.Locker, t target, tag string, h held, signals <-chan os.Signal) (doclock.Lease, error) {
	opts, err := h.options()
	if err != nil {
		return nil, err
	}
	ctx, stop := untilSignal(ctx, signals, 0)
	lease, err := locks.Acquire(ctx, t.filter, tag, opts...)
	s := stop()
	if s == nil {
		return lease, err
	}
	if lease != nil { // both at once
		release, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		_ = lease.Release(release) // what is left expires
	}
	return nil, interrupted(s)
}

// options are those of the acquire.
func (h *held) options() (opts []doclock.AcquireOption, err error) {
	if h.wait >= 0 {
		opts = append(opts, doclock.MaxWait(h.wait))
	}
	if h.skip {
		opts = append(opts, doclock.SkipLocked())
	}
	if h.least != 0 {
		opts = append(opts, doclock.HoldAtLeast(h.least))
	}
	if h.limited {
		opts = append(opts, doclock.HoldAtMost(h.most))
	}
	if h.sort != "" {
		keys, err := parseDocument("--sort", h.sort)
		if err != nil {
			return nil, err
		}
		opts = append(opts, doclock.Sort(keys))
	}
	return opts, nil
}

// notAcquired is the end of a run that got no lock.
func (c *cli) notAcquired(err error, t target, h held) error {
	code, missing := exitNotRun, errors.Is(err, doclock.ErrNotFound)
	var conflict *doclock.ConflictError
	switch {
	case errors.As(err, new(*ending)):
		return err
	case errors.As(err, &conflict):
		return &ending{code: exitConflict, err: c.ofCollection(heldError(t.conflict(conflict.Holders)))}
	case missing && h.skip:
		code, err = exitConflict, errNoneFree
	case missing && t.named:
		err = errNoSuchName
	case missing: // without the names, which are said here, and the options of Go
		err = doclock.ErrNotFound
	}
	return &ending{code: code, err: c.ofCollection(fmt.Errorf("%s: %w", t.text, err))}
}

// errNoSuchName is the end of a run whose NAME has no document, in a collection
// where run makes none.
var errNoSuchName = errors.New("no such document, and none was made")

// released releases the lock, and says what the run ends with.
func (c *cli) released(lease doclock.Lease, t target, h held, signals <-chan os.Signal, command *ending, cut error) error {
	code := command.code
	// The Ctrl-C that has ended the command comes here a moment later, and is not
	// meant for the release.
	ctx, stop := untilSignal(context.Background(), signals, time.Second)
	answered := c.sayLate(h, "releasing", "%s: the command ended with %d; the release waits for the server, until Ctrl-C", t.text, code)
	err := lease.Release(ctx)
	answered()
	stop()
	switch {
	case command.err != nil: // the command was not started
		return command
	case errors.Is(err, doclock.ErrLost):
		return &ending{code: exitLost, err: fmt.Errorf("%s: the lock was lost while the command ran (it ended with %d); others may have been let in: check what it wrote", t.text, code)}
	case errors.Is(cut, errLimit):
		return &ending{code: exitLost, err: fmt.Errorf("%s: the command was ended (with %d) after the %v of --at-most; check what it left undone", t.text, code, h.most)}
	case cut != nil:
		return &ending{code: exitLost, err: fmt.Errorf("%s: the lock could not be renewed, so the command was ended (with %d); check what it left undone", t.text, code)}
	case errors.Is(err, doclock.ErrOutcomeUnknown):
		return &ending{code: exitUnknown, err: fmt.Errorf("%s: the command ended with %d, but whether the lock was held until then can't be told: %w", t.text, code, err)}
	case err != nil: // nobody was let in
		c.say(true, "not released", "%s: the command ended with %d under the lock, which stands until it expires, because the release failed: %v", t.text, code, err)
	default:
		c.say(h.verbose, "released", "%s: released; the command ended with %d", t.text, code)
	}
	if code != 0 {
		return command
	}
	return nil
}

// heldError says which others hold the lock.
type heldError string

func (e heldError) Error() string { return string(e) }

// errNoneFree: --skip found nothing.
var errNoneFree = errors.New("no document matches and is free")

// conflict says who is in the way, the first few of many.
func (t target) conflict(all []doclock.Holder) string {
	const shown = 3
	var holders []string
	for _, h := range all[:min(shown, len(all))] {
		how := ""
		if h.UnknownTag {
			how = ", which these rules don't have"
		}
		if h.Waiting {
			how += ", waiting before it"
		}
		left := short(h.Remaining) + " left"
		if h.Remaining <= 0 {
			left = "expired, but a transaction of its holder may be open"
		}
		holders = append(holders, fmt.Sprintf("%q (%q%s, %s)", cmp.Or(h.Owner, "?"), h.Tag, how, left))
	}
	if more := len(all) - shown; more > 0 {
		holders = append(holders, fmt.Sprintf("%d more", more))
	}
	if len(holders) == 0 {
		return t.text + ": others were in the way, and have left since"
	}
	return fmt.Sprintf("%s is kept back by %s", t.text, strings.Join(holders, ", "))
}

// environment is what the command of run gets.
func (c *cli) environment(lease doclock.Lease) []string {
	guard, _ := bson.MarshalExtJSON(lease.Guard(), true, false) // of values that a document has
	env := append(os.Environ(),                                 // of two with one name the last one counts
		fmt.Sprintf("DOCLOCK_FENCE=%d", lease.Fence()),
		"DOCLOCK_LEASE="+lease.ID().String(),
		"DOCLOCK_TAG="+lease.Tag(),
		"DOCLOCK_COLLECTION="+c.full(),
		"DOCLOCK_DOCUMENT="+bsonvalue.Readable(lease.DocumentID()),
		"DOCLOCK_GUARD="+string(guard),
	)
	if name, ok := lease.DocumentID().StringValueOK(); ok && !strings.Contains(name, "\x00") {
		return append(env, "DOCLOCK_NAME="+name)
	}
	// A run around this one may have one.
	return slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, "DOCLOCK_NAME=") })
}

// sayLate says for people what a run waits for, if answered isn't called soon.
func (c *cli) sayLate(h held, event, format string, args ...any) (answered func()) {
	const soon = 2 * time.Second
	timer := time.AfterFunc(soon, func() { c.say(h.verbose || isTerminal(c.err), event, format, args...) })
	return func() { timer.Stop() }
}

// say tells on stderr how a run goes: always what on says, and with --json
// everything.
func (c *cli) say(on bool, event, format string, args ...any) {
	text := withoutURI(fmt.Sprintf(format, args...))
	switch {
	case c.json:
		line, _ := json.Marshal(struct {
			Event   string `json:"event"`
			Message string `json:"message"`
		}{event, text})
		fmt.Fprintln(c.err, oneline.Text(string(line)))
	case on:
		fmt.Fprintln(c.err, "doclock:", oneline.Text(text))
	}
}
