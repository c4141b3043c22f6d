package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// place is a collection of the test's own, or none, and what processes need to
// find it.
type place struct {
	*testing.T
	coll *mongo.Collection
	uri  string
}

// newPlace has the test run beside others.
func newPlace(t *testing.T) *place {
	t.Parallel()
	return alone(t)
}

func alone(t *testing.T) *place {
	return &place{t, mongotest.Database(t).Collection("locks"), mongotest.URI(t)}
}

// entries are those of one document, as they stand.
func (p *place) entries(id any) []admin.Entry {
	p.Helper()
	lock, err := admin.Inspect(context.Background(), p.coll, doclock.ID(id))
	if errors.Is(err, doclock.ErrNotFound) {
		return nil
	}
	if err != nil {
		p.Fatal(err)
	}
	return lock.Entries
}

// free fails the test if a document has an entry.
func (p *place) free(id any) {
	p.Helper()
	if left := p.entries(id); len(left) > 0 {
		p.Errorf("the entry is still there: %v", left)
	}
}

// hold holds a document's lock in this process.
func (p *place) hold(id any, owner string, ttl time.Duration) *doclock.Lease {
	p.Helper()
	locks, err := writelock.New(p.coll, doclock.Upsert(), doclock.Owner(owner), doclock.TTL(ttl))
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		if err := locks.Close(fixture.Bounded(p)); err != nil {
			p.Error(err)
		}
	})
	lease, err := locks.Acquire(fixture.Bounded(p), doclock.ID(id))
	if err != nil {
		p.Fatal(err)
	}
	return lease
}

// command is a process of the command line that has not begun. A run of it makes the
// document of its NAME, as the tests' collections are not the default one.
func (p *place) command(args ...string) *exec.Cmd {
	if i := slices.Index(args, "run"); i >= 0 && i+1 < len(args) && !strings.HasPrefix(args[i+1], "{") && !slices.Contains(args, "--create=false") {
		args = slices.Insert(slices.Clone(args), i+1, "--create")
	}
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "DOCLOCK_") || strings.HasPrefix(v, "MONGODB_URI=") || strings.HasPrefix(v, "NO_COLOR=")
	}), asCLI+"=1", "MONGODB_URI="+p.uri, "TERM=xterm", "GORACE=atexit_sleep_ms=0")
	if p.coll != nil {
		cmd.Env = append(cmd.Env, "DOCLOCK_COLLECTION="+p.coll.Database().Name()+"."+p.coll.Name())
	}
	return cmd
}

// do runs the command line to its end.
func (p *place) do(args ...string) (code int, stdout, stderr string) {
	p.Helper()
	var out, errs bytes.Buffer
	cmd := p.command(args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		p.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// want runs the command line, and checks its exit code and that its output has
// all of these.
func (p *place) want(code int, has []string, args ...string) string {
	p.Helper()
	got, stdout, stderr := p.do(args...)
	if got != code {
		p.Errorf("%q ended with %d, want %d; it said:\n%s%s", args, got, code, stdout, stderr)
	}
	for _, text := range has {
		if !strings.Contains(stdout+stderr, text) {
			p.Errorf("%q said nothing of %q:\n%s%s", args, text, stdout, stderr)
		}
	}
	return stdout
}

// running is a running command line.
type running struct {
	*place
	cmd *exec.Cmd
	in  io.WriteCloser
	out *output // stdout and stderr
	end chan struct{}
}

// output is what a process has printed so far.
type output struct {
	mu    sync.Mutex
	text  bytes.Buffer
	ended bool // everybody who could write to it is gone
}

func (o *output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(bytes.ReplaceAll(text, []byte("\r"), nil))
	return len(text), nil
}

func (o *output) read(from io.Reader) {
	_, _ = io.Copy(o, from) // a terminal's end is an error
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
}

func (o *output) count(text string) int { return strings.Count(o.String(), text) }

func (o *output) isEnded() bool { o.mu.Lock(); defer o.mu.Unlock(); return o.ended }

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// start starts the command line, without a terminal.
func (p *place) start(args ...string) *running {
	p.Helper()
	return p.startAs(p.command(args...))
}

// startAs starts a command, without a terminal. Its stderr may be set.
func (p *place) startAs(cmd *exec.Cmd) *running {
	p.Helper()
	r := &running{place: p, cmd: cmd}
	in, err := r.cmd.StdinPipe()
	if err != nil {
		p.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		p.Fatal(err)
	}
	r.cmd.Stdout = write
	if r.cmd.Stderr == nil {
		r.cmd.Stderr = write
	}
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // away from the terminal of whoever tests
	if err := r.cmd.Start(); err != nil {
		p.Fatal(err)
	}
	write.Close()
	r.begun(in, read)
	return r
}

// begun reads the output until everybody has closed it, and waits for the end.
func (r *running) begun(in io.WriteCloser, from io.ReadCloser) {
	r.in, r.out, r.end = in, &output{}, make(chan struct{})
	read := make(chan struct{})
	go func() { defer close(read); r.out.read(from) }()
	go func() { defer close(r.end); _ = r.cmd.Wait() }()
	r.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		<-r.end
		for _, pid := range r.started() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		from.Close()
		<-read
		if r.Failed() {
			r.Logf("%q said:\n%s", r.cmd.Args[1:], r.out)
		}
	})
}

// run starts run with a child as its command, and returns when that has
// started. flags come before the "--", and how after it.
func (p *place) run(flags []string, how ...string) *running {
	p.Helper()
	r := p.start(runArguments(flags, how)...)
	r.says("started")
	return r
}

func runArguments(flags, how []string) []string {
	args := append([]string{"run"}, flags...)
	return append(append(args, "--", os.Args[0], childArgument), how...)
}

// started are the process ids of the children.
func (r *running) started() (pids []int) {
	for line := range strings.Lines(r.out.String()) {
		if pid, ok := strings.CutPrefix(strings.TrimSpace(line), "started "); ok {
			if n, err := strconv.Atoi(pid); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return pids
}

// says waits until the process has printed a text.
func (r *running) says(text string) {
	r.Helper()
	fixture.Eventually(r, "the process says "+text, func() bool { return r.out.count(text) > 0 })
}

// tell gives the process a line.
func (r *running) tell(line string) { r.Helper(); r.types(line + "\n") }

// types types keys. "\x03" is a Ctrl-C, if there is a terminal.
func (r *running) types(keys string) {
	r.Helper()
	if _, err := io.WriteString(r.in, keys); err != nil {
		r.Error(err)
	}
}

func (r *running) signal(s syscall.Signal) {
	r.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		r.Error(err)
	}
}

// ends waits for the end of the process and its output, and checks the exit code.
func (r *running) ends(code int) {
	r.Helper()
	r.endsAlone(code)
	fixture.Eventually(r, "the output ends", r.out.isEnded)
}

// exits has the command exit with a code, which the process ends with too.
func (r *running) exits(code int) { r.Helper(); r.tell("exit " + itoa(code)); r.ends(code) }

// endsAlone is ends where others go on that have the output open.
func (r *running) endsAlone(code int) {
	r.Helper()
	select {
	case <-r.end:
	case <-time.After(2 * fixture.Patience):
		r.Fatalf("it does not end; it said:\n%s", r.out)
	}
	if got := endedWith(r.cmd.ProcessState); got != code {
		r.Errorf("it ended with %d, want %d; it said:\n%s", got, code, r.out)
	}
}

// endedWith is the exit code as a shell gives it.
func endedWith(state *os.ProcessState) int {
	return endOf(state).code
}
