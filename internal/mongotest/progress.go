package mongotest

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// progress tells a person who waits what is being done, a line at a time.
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
	// Nobody is worse off without a line of progress than with a failure because of one.
	_, _ = fmt.Fprintf(p.out, "mongotest: "+format+"\n", args...)
}

// step announces what it does, shows a sign of life while it takes long, and says how long it took.
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

// terminal is where a test's progress reaches the person who waits for it. `go test` keeps back what a test binary
// writes until that binary ends, so the lines go to `go test`'s own standard error; failing that, to the terminal;
// failing that, to our standard error, late.
func terminal() (out io.Writer, done func()) {
	if file := goToolStderr(); file != nil {
		return file, func() { _ = file.Close() }
	}
	if file, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0); err == nil {
		return file, func() { _ = file.Close() }
	}
	return os.Stderr, func() {}
}
