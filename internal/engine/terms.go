package engine

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Terms are what one acquire asks for its entry, or, of a Locker, what an acquire gets
// that asks for none. The zero Terms of an acquire ask for nothing. Durations are
// whole milliseconds.
type Terms struct {
	TTL   time.Duration // of the entry once it is held; 0 is the Locker's
	Owner string        // "" is the Locker's
	Least time.Duration // others are kept out for that long after the grant, whatever the holder does; 0 is none
	Most  time.Duration // the lease ends that long after the grant, whatever the holder does; 0 is none
}

// LeaseBy returns the TTL of a held entry of this tag by an acquire's terms.
func (c *Config) LeaseBy(tag string, t Terms) time.Duration {
	ttl := cmp.Or(t.TTL, c.Lease(tag))
	if t.Most > 0 {
		ttl = min(ttl, t.Most)
	}
	return ttl
}

// timed is a command that is made for the TTL and the owner that it writes.
type timed uint8

const (
	acquiring timed = iota
	trying
	confirming
	renewing
	timedCommands // their number
)

// byTerms are templates for terms that differ from the Locker's. They are made
// when they are needed: most programs use none or a few, but some a new owner
// for each acquire. So their number is bounded, and all are dropped when there
// are too many: to make one costs less than to send it.
type byTerms struct {
	mu   sync.Mutex
	made map[termsKey]*template
}

type termsKey struct {
	command timed
	tag     string
	terms   Terms
}

const mostTemplates = 64

// arriving is the template of an acquire.
func (e *Engine) arriving(r Request) *template {
	if r.Try {
		return e.template(trying, r.Tag, r.Terms)
	}
	return e.template(acquiring, r.Tag, r.Terms)
}

// confirming is the template of a confirm, which leaves the owner as it is.
func (e *Engine) confirming(r Request) *template {
	return e.template(confirming, r.Tag, Terms{TTL: r.Terms.TTL, Least: r.Terms.Least, Most: r.Terms.Most})
}

// renewing is the template of a renewal, which leaves all but the expiry as it
// is.
func (e *Engine) renewing(g Grant) *template {
	if g.TTL == e.Lease(g.Tag) {
		return e.template(renewing, g.Tag, Terms{})
	}
	return e.template(renewing, g.Tag, Terms{TTL: g.TTL})
}

func (e *Engine) template(c timed, tag string, t Terms) *template {
	if t.Most > 0 { // the entry has no more of it than a TTL
		t.TTL, t.Most = e.LeaseBy(tag, t), 0
	}
	if t == (Terms{}) {
		return &e.tags[tag].timed[c]
	}
	key := termsKey{c, tag, t}
	e.terms.mu.Lock()
	defer e.terms.mu.Unlock()
	made := e.terms.made[key]
	if made != nil {
		return made
	}
	made, err := e.makeTimed(c, tag, t)
	if err != nil { // New has made the same with other numbers and another owner
		panic(fmt.Sprintf("doclock: %v", err))
	}
	if e.terms.made == nil || len(e.terms.made) == mostTemplates {
		e.terms.made = make(map[termsKey]*template)
	}
	e.terms.made[key] = made
	return made
}

// makeTimed makes one template by an acquire's terms.
func (e *Engine) makeTimed(c timed, tag string, t Terms) (*template, error) {
	d, id := e.tags[tag].decision, idValue(idPlaceholder)
	d.held = (e.LeaseBy(tag, t) + e.Tolerance).Milliseconds()
	if t.Least > 0 {
		d.until = (t.Least + e.Tolerance).Milliseconds()
	}
	var commands any
	switch c {
	case acquiring, trying:
		commands = d.arrival(e.field, c == acquiring, id, cmp.Or(t.Owner, e.Owner))
	case confirming:
		commands = d.confirmation(e.field, id)
	case renewing:
		commands = d.renewal(id)
	}
	made, err := newTemplate(commands)
	return &made, err
}

// ownerBy is the owner of an entry by an acquire's terms, in a classic update.
func (e *Engine) ownerBy(t Terms) bson.RawValue {
	if t.Owner == "" {
		return e.owner
	}
	return value(t.Owner)
}

// granting is for how many milliseconds a grant keeps its entry.
func (d decision) granting() int64 { return max(d.held, d.until) }

// keptOut is the time until which a grant keeps others out, whatever its holder
// does.
func (d decision) keptOut() bson.D { return call("$add", d.now, d.until) }
