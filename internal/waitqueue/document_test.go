package waitqueue

import (
	"slices"
	"sync"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
)

// document is a document on a server of the test's own: it executes a command
// after half of the way there and back. Within a synctest bubble that takes no
// time.
type document struct {
	rules   relations.Rules
	ttl     time.Duration // of a held entry
	waitTTL time.Duration
	latency time.Duration
	hides   bool          // answers with images of an empty lock
	ahead   time.Duration // of the server's clock

	mu       sync.Mutex
	lock     engine.Lock
	commands int
	faults   []string
	grants   []engine.Entry // in their order
}

func newDocument(rules relations.Rules) *document {
	return &document{rules: rules, ttl: 24 * time.Hour, waitTTL: 5 * time.Second, latency: time.Millisecond}
}

// turn turns the server's clock.
func (d *document) turn(ahead time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ahead = ahead
}

// now is the server's clock.
func (d *document) now() time.Time { return time.Now().Add(d.ahead) }

// send executes a command on its way.
func (d *document) send(command func() engine.Answer) engine.Answer {
	time.Sleep(d.latency / 2)
	d.mu.Lock()
	d.commands++
	d.lock.Entries = slices.DeleteFunc(d.lock.Entries, func(e engine.Entry) bool { return !e.Expires.After(d.now()) })
	got := command()
	d.mu.Unlock()
	time.Sleep(d.latency / 2)
	return got
}

func (d *document) image() *engine.Image {
	img := &engine.Image{Now: d.now(), Lock: d.lock}
	if d.hides {
		img.Lock = engine.Lock{Fence: d.lock.Fence}
	}
	img.Lock.Entries = slices.Clone(img.Lock.Entries)
	return img
}

func (d *document) inTheWay(tag string, own *engine.Entry) []engine.Entry {
	blocking, _ := engine.InTheWay(d.rules, &engine.Image{Now: d.now(), Lock: d.lock}, tag, own)
	return blocking
}

func (d *document) acquire(r engine.Request) engine.Answer {
	return d.send(func() engine.Answer { return d.arrive(r) })
}

func (d *document) confirm(r engine.Request) engine.Answer {
	return d.send(func() engine.Answer { return d.confirmed(r) })
}

func (d *document) release(id uuid.UUID) {
	d.send(func() engine.Answer { d.remove(id); return engine.Answer{} })
}

// handoff releases an entry and grants the successor, if it can be granted.
func (d *document) handoff(id uuid.UUID, s engine.Successor) engine.Answer {
	return d.send(func() engine.Answer {
		d.remove(id)
		if s.Waiting {
			return d.confirmed(s.Request)
		}
		s.Try = true
		return d.arrive(s.Request)
	})
}

func (d *document) arrive(r engine.Request) engine.Answer {
	blocking := d.inTheWay(r.Tag, nil)
	refused := slices.ContainsFunc(blocking, func(e engine.Entry) bool { return d.rules[r.Tag][e.Tag].Kind == relations.Cooperative })
	if refused || len(blocking) > 0 && r.Try {
		return engine.Answer{Outcome: engine.Conflict, Image: d.image()}
	}
	d.lock.Fence++
	e := engine.Entry{Tag: r.Tag, ID: r.ID, Seq: d.lock.Fence, Expires: d.now().Add(d.waitTTL)}
	d.lock.Entries = append(d.lock.Entries, e)
	if len(blocking) > 0 {
		return engine.Answer{Outcome: engine.Waiting, Image: d.image()}
	}
	return d.grant(r, d.lock.Fence)
}

func (d *document) confirmed(r engine.Request) engine.Answer {
	own, there := d.lock.Find(r.Tag, r.ID)
	if !there {
		return engine.Answer{Outcome: engine.Lost, Image: d.image()}
	}
	if len(d.inTheWay(r.Tag, &own)) > 0 {
		d.entry(r.ID).Expires = d.now().Add(d.waitTTL)
		return engine.Answer{Outcome: engine.Waiting, Image: d.image()}
	}
	d.lock.Fence++
	return d.grant(r, d.lock.Fence)
}

func (d *document) grant(r engine.Request, fence int64) engine.Answer {
	e := d.entry(r.ID)
	e.Fence, e.Expires = fence, d.now().Add(d.ttl)
	d.grants = append(d.grants, *e)
	return engine.Answer{Outcome: engine.Granted, Image: d.image()}
}

func (d *document) entry(id uuid.UUID) *engine.Entry {
	return &d.lock.Entries[slices.IndexFunc(d.lock.Entries, func(e engine.Entry) bool { return e.ID == id })]
}

func (d *document) remove(id uuid.UUID) {
	d.lock.Entries = slices.DeleteFunc(d.lock.Entries, func(e engine.Entry) bool { return e.ID == id })
}
