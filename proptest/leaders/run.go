package leaders

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/doclock/doclock/proptest/tally"
)

// What is counted.
const (
	Killed  = "leader killed (-9)"
	Stopped = "leader stopped past its lease (SIGSTOP), and continued"
	OnlyOne = "no two leaders believe in their leases at the same time"
)

const candidates = 5

// Run kills or stops the leader n times. It returns how long it took each time
// until the next one led.
func Run(ctx context.Context, uri, db string, n int, t *tally.Tally) (gaps []time.Duration, err error) {
	r := &run{env: childVar + "=" + uri + " " + db, terms: map[int64]*term{}}
	var processes []*process
	defer func() {
		for _, p := range processes {
			p.end()
		}
	}()
	for range candidates {
		p, err := r.start(ctx)
		if err != nil {
			return nil, err
		}
		processes = append(processes, p)
	}
	last, _, err := r.after(ctx, 0)
	if err != nil {
		return nil, err
	}
	for range n {
		time.Sleep(rand.N(300 * time.Millisecond)) // the leader is met at any moment of its term
		leader := r.leader(last)
		begun := time.Now()
		kill := rand.N(2) == 0
		if kill {
			_ = leader.cmd.Process.Kill()
			t.Fired(Killed, 1)
		} else {
			_ = leader.cmd.Process.Signal(syscall.SIGSTOP)
			t.Fired(Stopped, 1)
		}
		fence, from, err := r.after(ctx, last)
		if err != nil {
			return nil, err
		}
		last = fence
		gaps = append(gaps, from.Sub(begun))
		if !kill {
			_ = leader.cmd.Process.Signal(syscall.SIGCONT)
			continue
		}
		leader.end()
		p, err := r.start(ctx)
		if err != nil {
			return nil, err
		}
		processes[slices.Index(processes, leader)] = p
	}
	for _, p := range processes {
		p.end()
	}
	r.check(t)
	return gaps, nil
}

// term is the time for which a leader said that its lease was valid.
type term struct {
	leader      *process
	first, last int64
}

type run struct {
	env string

	mu    sync.Mutex
	terms map[int64]*term // by fencing token
}

// after waits for a term after the one with this fencing token.
func (r *run) after(ctx context.Context, last int64) (fence int64, from time.Time, err error) {
	bounded, end := context.WithTimeout(ctx, time.Minute)
	defer end()
	for bounded.Err() == nil {
		r.mu.Lock()
		for _, fence := range slices.Sorted(maps.Keys(r.terms)) {
			if fence > last {
				from := time.Unix(0, r.terms[fence].first)
				r.mu.Unlock()
				return fence, from, nil
			}
		}
		r.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
	return 0, from, fmt.Errorf("nobody leads: %w", context.Cause(bounded))
}

func (r *run) leader(fence int64) *process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.terms[fence].leader
}

// check compares each term with the next. The processes have ended.
func (r *run) check(t *tally.Tally) {
	fences := slices.Sorted(maps.Keys(r.terms))
	for i, fence := range fences[1:] {
		before, term := r.terms[fences[i]], r.terms[fence]
		t.Checked(OnlyOne, 1)
		if before.last >= term.first {
			t.Violated(OnlyOne, "a leader believed until %v after the next one began", time.Duration(before.last-term.first))
		}
	}
}

// process is one candidate's.
type process struct {
	cmd  *exec.Cmd
	in   io.Closer
	read chan struct{} // its output was read to the end
	once sync.Once
}

func (r *run) start(ctx context.Context) (*process, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), r.env)
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
	p := &process{cmd: cmd, in: in, read: make(chan struct{})}
	go func() {
		defer close(p.read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			r.note(p, lines.Text())
		}
	}()
	return p, nil
}

func (p *process) end() {
	p.once.Do(func() {
		_ = p.in.Close()
		<-p.read
		_ = p.cmd.Wait()
	})
}

// note takes in a line of a leader. A process that was killed may have left half
// of one.
func (r *run) note(p *process, line string) {
	var fence, at int64
	if n, err := fmt.Sscanf(strings.TrimSpace(line), "valid %d %d", &fence, &at); err != nil || n != 2 || at < 1e18 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.terms[fence] == nil {
		r.terms[fence] = &term{leader: p, first: at}
	}
	r.terms[fence].last = at
}
