package faults

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/proptest/tally"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

const (
	killed       = "holder killed (-9)"
	stopped      = "holder stopped past its lease (SIGSTOP), and continued"
	notBefore    = "a dead holder's lock is granted no earlier than its expiry"
	soonAfter    = "a dead holder's lock is granted within 2 s after its expiry"
	lateRefused  = "a stopped holder's late guarded write is refused"
	lateNoticed  = "a stopped holder notices the loss at its release"
	holderTTL    = 300 * time.Millisecond
	childVar     = "DOCLOCK_FAULTS_HOLDER"
	takeoverTime = 2 * time.Second
)

// Main turns the process into a holder if it was started as one, and then does
// not return. Programs and tests that call [Crash] call it first.
func Main() {
	args := os.Getenv(childVar)
	if args == "" {
		return
	}
	if err := hold(strings.Fields(args)); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// hold acquires the lock, prints that, and keeps the lease alive. When it is
// told to go on, it writes under the guard, releases, and prints both results.
func hold(args []string) error {
	ctx := context.Background()
	client, err := mongo.Connect(options.Client().ApplyURI(args[0]))
	if err != nil {
		return err
	}
	docs := client.Database(args[1]).Collection(args[2])
	locks, err := multilock.New(docs, relations.WritePreferring(), func(c *engine.Config) error { c.TTL = holderTTL; return nil }, doclock.ClockTolerance(0), doclock.Owner("holder"),
		doclock.AttemptTimeout(5*time.Second))
	if err != nil {
		return err
	}
	lease, err := locks.Acquire(ctx, bson.M{"_id": args[3]}, "write")
	if err != nil {
		return err
	}
	lease.KeepAlive(ctx)
	fmt.Println("held")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err // the parent has ended
	}
	fmt.Println("update:", word(lease.Update(ctx, increment)))
	fmt.Println("release:", word(lease.Release(ctx)))
	return nil
}

func word(err error) string {
	switch {
	case err == nil:
		return "done"
	case errors.Is(err, doclock.ErrLost):
		return "lost"
	default:
		return err.Error()
	}
}

// holder is a process that holds a lock.
type holder struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func startHolder(ctx context.Context, uri, db, coll, id string) (*holder, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), childVar+"="+strings.Join([]string{uri, db, coll, id}, " "))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	h := &holder{cmd: cmd, in: in, out: bufio.NewScanner(out)}
	if said := h.listen(); said != "held" {
		h.end()
		return nil, fmt.Errorf("the holder says %q", said)
	}
	return h, nil
}

func (h *holder) listen() string {
	h.out.Scan()
	return h.out.Text()
}

func (h *holder) end() {
	_ = h.cmd.Process.Kill()
	_ = h.cmd.Wait()
}

// Crash starts a holder in its own process, kills or stops it, and acquires its
// lock; n times each.
func Crash(ctx context.Context, db *mongo.Database, uri string, n int, t *tally.Tally) error {
	st, err := newStage(db, uri)
	if err != nil {
		return err
	}
	defer st.close()
	for i := range 2 * n {
		if err := crash(ctx, st, uri, i%2 == 0, t); err != nil {
			return err
		}
	}
	return nil
}

func crash(ctx context.Context, st *stage, uri string, kill bool, t *tally.Tally) error {
	s, err := st.scene(ctx, doclock.ClockTolerance(0))
	if err != nil {
		return err
	}
	h, err := startHolder(ctx, uri, st.doc.Database().Name(), st.doc.Name(), s.id)
	if err != nil {
		return err
	}
	defer h.end()
	if kill {
		err = h.cmd.Process.Kill()
	} else {
		err = h.cmd.Process.Signal(syscall.SIGSTOP)
	}
	if err != nil {
		return err
	}
	// A renewal may still be on its way: the entry that is present when the
	// next holder comes is the relevant one.
	before, err := s.stored(ctx)
	if err != nil {
		return err
	}
	lease, err := s.locks.Acquire(ctx, s.filter(), "write")
	if err != nil {
		return err
	}
	after, err := s.stored(ctx)
	if err != nil {
		return err
	}
	old := before.entries("holder")
	if len(old) != 1 {
		return fmt.Errorf("the holder's entries: %v", old)
	}
	granted := time.UnixMilli(lease.Fence()) // a grant's fence is its time, unless there are many grants
	t.Checked(notBefore, 1)
	if granted.Before(old[0].Expires) {
		t.Violated(notBefore, "granted at %v, the entry expired at %v", granted, old[0].Expires)
	}
	t.Checked(soonAfter, 1)
	if late := granted.Sub(old[0].Expires); late > takeoverTime+holderTTL {
		t.Violated(soonAfter, "granted %v after the expiry", late)
	}
	if left := after.entries("holder"); len(left) > 0 {
		t.Violated(notBefore, "the dead holder's entry is beside the new one: %v", left)
	}
	if kill {
		t.Fired(killed, 1)
	} else if err := s.continued(h, t); err != nil {
		return err
	}
	if err := lease.Release(ctx); err != nil {
		return fmt.Errorf("the new holder: %w", err)
	}
	return s.locks.Close(ctx)
}

// continued lets the stopped holder go on.
func (s *scene) continued(h *holder, t *tally.Tally) error {
	t.Fired(stopped, 1)
	if err := h.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(h.in); err != nil {
		return err
	}
	t.Checked(lateRefused, 1)
	if said := h.listen(); said != "update: lost" {
		t.Violated(lateRefused, "%s", said)
	}
	t.Checked(lateNoticed, 1)
	if said := h.listen(); said != "release: lost" {
		t.Violated(lateNoticed, "%s", said)
	}
	doc, err := s.stored(context.Background())
	if err != nil {
		return err
	}
	if doc.Count != 0 {
		t.Violated(lateRefused, "count %d", doc.Count)
	}
	return nil
}
