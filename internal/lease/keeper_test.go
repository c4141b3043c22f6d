package lease

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
)

const aLittle = 100 * time.Millisecond

func TestKeepAlivesShareOneLoop(t *testing.T) {
	virtual(t, func(r *rig) {
		h := r.take(1, "write")
		first, cancelFirst := context.WithCancel(context.Background())
		keptFirst, keptSecond := h.KeepAlive(first), r.keep(h)[0]
		time.Sleep(ttl + aLittle)
		r.wantSent("renew", "renew", "renew")
		cancelFirst()
		if cause := context.Cause(keptFirst); !errors.Is(cause, context.Canceled) {
			r.Errorf("cause %v", cause)
		}
		r.server.forget()
		time.Sleep(ttl + aLittle)
		r.wantSent("renew", "renew", "renew")
		if keptSecond.Err() != nil {
			r.Errorf("the second context: %v", context.Cause(keptSecond))
		}
	})
}

// Nobody answers a renewal, which may take a minute: the loss is known when the
// lease ends.
func TestKeepAliveTellsTheEndInsideARenewal(t *testing.T) {
	virtual(t, func(r *rig) {
		h := r.take(1, "write")
		r.server.fault = func(ctx context.Context, _ call) error {
			<-ctx.Done()
			return ctx.Err()
		}
		kept := r.keep(h)[0]
		begun := time.Now()
		<-kept.Done()
		if passed := time.Since(begun); passed != ttl-resolution {
			r.Errorf("lost after %v", passed)
		}
		if cause := context.Cause(kept); !errors.Is(cause, doclock.ErrLost) || h.Remaining() != 0 {
			r.Errorf("cause %v, %v left", cause, h.Remaining())
		}
		h = r.take(2, "write")
		begun = time.Now()
		r.wantLost("Renew", h.Renew(context.Background()), doclock.LossExpired)
		if passed := time.Since(begun); passed > ttl {
			r.Errorf("Renew returned after %v", passed)
		}
	}, func(cfg *engine.Config) { cfg.AttemptTimeout = time.Minute })
}

func TestKeepAliveSurvivesWhatPasses(t *testing.T) {
	for name, arm := range map[string]func(s *server, err func() error){
		"requests are lost": func(s *server, err func() error) {
			s.fault = func(context.Context, call) error { return err() }
		},
		"replies are lost": func(s *server, err func() error) {
			s.lose = func(call) error { return err() }
		},
		"refusals": func(s *server, err func() error) {
			s.fault = func(context.Context, call) error {
				if err() != nil {
					return &engine.Failure{Nothing: true}
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				h := r.take(1, "write")
				var n atomic.Int32
				arm(r.server, func() error {
					if n.Add(1)%4 != 0 { // three of four
						return errors.New("connection lost")
					}
					return nil
				})
				kept := r.keep(h)[0]
				time.Sleep(5 * ttl)
				if kept.Err() != nil {
					r.Errorf("taken for a loss: %v", context.Cause(kept))
				}
			})
		})
	}
}
