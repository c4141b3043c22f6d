package mongotest

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// progress tells the user what is being done, one line at a time.
type progress struct {
	mu  sync.Mutex
	out io.Writer
}

func newProgress(out io.Writer) *progress {
	if out == nil {
		out = io.Discard
	}
	return &progress{out: out}
}

func (p *progress) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// A missing line of progress is better than a failure because of one.
	_, _ = fmt.Fprintf(p.out, "mongotest: "+format+"\n", args...)
}

// step prints its name, prints progress while it takes long, and prints its
// duration.
func (p *progress) step(ctx context.Context, name string, do func(context.Context) error) error {
	began := time.Now()
	p.say("%s …", name)

	finished := make(chan struct{})
	var life sync.WaitGroup
	life.Go(func() {
		tick := time.NewTicker(15 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-finished:
				return
			case <-tick.C:
				p.say("%s … (%d s)", name, int(time.Since(began).Seconds()))
			}
		}
	})
	err := do(ctx)
	close(finished)
	life.Wait()

	if err != nil {
		p.say("%s: failed after %.1f s", name, time.Since(began).Seconds())
		return fmt.Errorf("%s: %w", name, err)
	}
	p.say("%s: done in %.1f s", name, time.Since(began).Seconds())
	return nil
}

// terminal is the output for a test's progress. `go test` keeps the output of a
// test binary until that binary ends. So the lines go to the standard error of
// `go test` itself, or else to the terminal, or else to our own standard error,
// late.
func terminal() (out io.Writer, done func()) {
	if file := goToolStderr(); file != nil {
		return file, func() { _ = file.Close() }
	}
	if file, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0); err == nil {
		return file, func() { _ = file.Close() }
	}
	return os.Stderr, func() {}
}
