package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// errand is a child process's task: the benchmark runs itself, with -child and
// this as JSON.
type errand struct {
	Role       string // a key of roles
	Subject    string
	Key        string
	Goroutines int
	Window     time.Duration
	TTL        time.Duration
	Servers    servers
}

// roles of a child. A child prints "ready", and then answers lines with lines.
// It ends when its parent closes its input, or dies.
var roles = map[string]func(ctx context.Context, e errand, s named, said *bufio.Scanner) error{
	"competitor": compete,
	"waiter":     waitOnRequest,
	"holder":     holdForEver,
	"claimant":   claimAll,
}

func runChild(ctx context.Context, spec string) error {
	var e errand
	if err := json.Unmarshal([]byte(spec), &e); err != nil {
		return err
	}
	s, err := open(ctx, &e.Servers, e.Subject, e.TTL)
	if err != nil {
		return err
	}
	defer s.close()
	return roles[e.Role](ctx, e, named{e.Subject, s}, bufio.NewScanner(os.Stdin))
}

// competed is a competitor's answer.
type competed struct {
	Latencies []time.Duration
	Commands  int64
	Completed int // with those after the window, and the first one
	Failed    int
}

// compete increments one document for a window, from the parent's signal on.
func compete(ctx context.Context, e errand, s named, said *bufio.Scanner) error {
	if err := warmUp(ctx, s, e.Goroutines); err != nil {
		return err
	}
	if err := s.subject.(incrementer).increment(ctx, e.Key); err != nil { // some locks must be created first
		return err
	}
	fmt.Println("ready")
	if !said.Scan() {
		return said.Err()
	}
	w, err := window(ctx, e.Goroutines, e.Window, s, func(ctx context.Context, _ int) error {
		return s.subject.(incrementer).increment(ctx, e.Key)
	})
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(competed{w.latencies, w.commands, 1 + w.completed, w.failed})
}

// waitOnRequest waits for the lock, prints the time of the grant, and releases
// the lock.
func waitOnRequest(ctx context.Context, e errand, s named, said *bufio.Scanner) error {
	for fmt.Println("ready"); said.Scan(); fmt.Println("ready") {
		unlock, err := s.subject.(locker).lock(ctx, e.Key)
		now := time.Now()
		if err != nil {
			return err
		}
		fmt.Println(now.UnixNano())
		if err := unlock(ctx); err != nil {
			return err
		}
	}
	return said.Err()
}

// holdForEver acquires the lock, and is killed.
func holdForEver(ctx context.Context, e errand, s named, said *bufio.Scanner) error {
	if _, err := s.subject.(locker).lock(ctx, e.Key); err != nil {
		return err
	}
	fmt.Println("ready")
	said.Scan()
	return said.Err()
}

// process is a child.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// spawn starts a child, which then says "ready".
func (b *bench) spawn(e errand) (*process, error) {
	e.Servers = b.servers
	spec, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(self, "-child", string(spec))}
	p.cmd.Stderr = os.Stderr
	tie(p.cmd)
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewScanner(out)
	p.out.Buffer(nil, 16<<20)
	return p, p.cmd.Start()
}

func (p *process) tell(line string) error {
	_, err := fmt.Fprintln(p.in, line)
	return err
}

func (p *process) hear() (string, error) {
	if !p.out.Scan() {
		return "", errors.Join(errors.New("a child process ended early"), p.out.Err())
	}
	return p.out.Text(), nil
}

// hearTime reads a time of the wall clock, which all processes share.
func (p *process) hearTime() (time.Time, error) {
	line, err := p.hear()
	if err != nil {
		return time.Time{}, err
	}
	nanos, err := strconv.ParseInt(line, 10, 64)
	return time.Unix(0, nanos), err
}

// end lets the child end by itself.
func (p *process) end() error {
	_ = p.in.Close()
	return p.cmd.Wait()
}

// kill ends the child as kill -9 does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}
