package child

import (
	"context"
	"sync"
)

// Together starts a process for each job. When each has printed a line, it lets all
// proceed, and passes their further lines to answer, one at a time, until all have
// ended. The first error kills the others.
func Together[Job any](ctx context.Context, name string, jobs []Job, answer func(process int, line string) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var ready, running sync.WaitGroup
	var mu sync.Mutex // of answer
	ready.Add(len(jobs))
	start := make(chan struct{})
	for i, job := range jobs {
		running.Go(func() {
			waiting := sync.OnceFunc(ready.Done)
			defer waiting()
			err := converse(ctx, name, job, func() { waiting(); <-start }, func(line string) error {
				mu.Lock()
				defer mu.Unlock()
				return answer(i, line)
			})
			if err != nil {
				cancel(err)
			}
		})
	}
	ready.Wait()
	close(start)
	running.Wait()
	return context.Cause(ctx)
}

func converse(ctx context.Context, name string, job any, ready func(), answer func(line string) error) error {
	p, err := Start(ctx, name, job, nil)
	if err != nil {
		return err
	}
	defer func() {
		p.Kill()
		_ = p.End()
	}()
	if _, err := p.Hear(); err != nil {
		return err
	}
	ready()
	if err := p.Proceed(); err != nil {
		return err
	}
	for line := range p.lines {
		if err := failure(line); err != nil {
			return err
		}
		if err := answer(line); err != nil {
			return err
		}
	}
	return p.End()
}
