package cases

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/doclock/doclock/bench/servers"
	"github.com/doclock/doclock/bench/subjects"
	"github.com/doclock/doclock/internal/child"
)

// errand is the task of a further process, which is the benchmark itself.
type errand struct {
	Role       string // a key of roles
	Subject    string
	Key        string
	Goroutines int
	Window     time.Duration
	TTL        time.Duration
	Servers    servers.Servers
}

// roles of a child. It ends when its parent closes its input, or dies.
var roles = map[string]func(ctx context.Context, e errand, s *subjects.Subject) error{
	"competitor": compete,
	"waiter":     waitOnRequest,
	"holder":     holdForEver,
	"claimant":   claimAll,
}

// childName is the name under which the benchmark runs itself.
const childName = "bench"

// Child runs an errand if the process was started for one, and doesn't return then.
func Child() {
	child.Main(childName, func(ctx context.Context, e errand) error {
		s, err := subjects.Open(&e.Servers, e.Subject, e.TTL)
		if err != nil {
			return err
		}
		defer s.Close()
		return roles[e.Role](ctx, e, s)
	})
}

// ready says that the child is ready, and waits until its parent lets it go on.
func ready(ctx context.Context) error {
	fmt.Println("ready")
	return child.Await(ctx)
}

// compete increments one document for a window, from the parent's signal on. It
// answers with a window; those that completed include the first one.
func compete(ctx context.Context, e errand, s *subjects.Subject) error {
	if err := warmUp(ctx, s, e.Goroutines); err != nil {
		return err
	}
	if err := s.Increment(ctx, e.Key); err != nil { // some locks must be created first
		return err
	}
	if err := ready(ctx); err != nil {
		return err
	}
	w, err := window(ctx, e.Goroutines, e.Window, s, func(ctx context.Context) error { return s.Increment(ctx, e.Key) })
	if err != nil {
		return err
	}
	w.Completed++
	return json.NewEncoder(os.Stdout).Encode(w)
}

// waitOnRequest waits for the lock, prints the time of the grant, and releases
// the lock.
func waitOnRequest(ctx context.Context, e errand, s *subjects.Subject) error {
	for {
		if err := ready(ctx); err != nil {
			return nil // the parent has seen enough
		}
		unlock, err := s.Lock(ctx, e.Key)
		now := time.Now()
		if err != nil {
			return err
		}
		fmt.Println(now.UnixNano())
		if err := unlock(ctx); err != nil {
			return err
		}
	}
}

// holdForEver acquires the lock, and is killed.
func holdForEver(ctx context.Context, e errand, s *subjects.Subject) error {
	if _, err := s.Lock(ctx, e.Key); err != nil {
		return err
	}
	return ready(ctx)
}

// spawn starts a child for a subject, which then says "ready".
func (r *Run) spawn(ctx context.Context, role string, s *subjects.Subject, key string) (*child.Process, error) {
	return child.Start(ctx, childName, errand{Role: role, Subject: s.Name, Key: key, TTL: r.now.ttl, Servers: r.Servers}, nil)
}

// hearTime reads a time of the wall clock, which all processes share.
func hearTime(p *child.Process) (time.Time, error) {
	line, err := p.Hear()
	if err != nil {
		return time.Time{}, err
	}
	nanos, err := strconv.ParseInt(line, 10, 64)
	return time.Unix(0, nanos), err
}

// dismiss kills a child, as kill -9 does.
func dismiss(p *child.Process) {
	p.Kill()
	_ = p.End()
}

// together has processes do their errands at the same time, each from the moment
// when all are ready, and passes their answers on.
func together[Answer any](ctx context.Context, r *Run, errands []errand, answer func(process int, a Answer)) error {
	for i := range errands {
		errands[i].Servers, errands[i].TTL = r.Servers, r.now.ttl
	}
	return child.Together(ctx, childName, errands, func(process int, line string) error {
		var a Answer
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			return err
		}
		answer(process, a)
		return nil
	})
}
