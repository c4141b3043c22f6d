package simulation

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/doclock/doclock/proptest/history"
	"github.com/doclock/doclock/proptest/tally"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// CallsRest is counted for each command that follows another one while none succeeds.
const CallsRest = "while nothing succeeds, a call in flight sends at most 20 commands a second"

const mostASecond = 20

// pace is how fast a program sends commands. Those of one call name the same entry, or none. One after the other, several
// calls name an entry. The leases of a batch have one id, each in its own document, and calls of their own.
type pace struct {
	mu      sync.Mutex
	calls   int                  // in flight
	sent    map[string][]sending // in the last second, since a command has succeeded, by entry and document
	checked int
	hectic  string // the last time that there were too many, or ""
}

type sending struct {
	at    time.Time
	calls int
	of    *call // or nil: it goes on in the background
}

// flies counts a call that begins, or with -1 one that ends.
func (p *pace) flies(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls += n
}

// sends counts a command of a call. One with a transaction number is the simulation's own, which the
// driver sends again as it likes.
func (p *pace) sends(c *call, command bson.Raw) {
	if _, err := command.LookupErr("txnNumber"); err == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now, of := sending{time.Now(), max(1, p.calls), c}, ""
	if ids := entriesOf(command); len(ids) > 0 {
		of, now.calls = ids[0]+command.Lookup("query", "_id").String(), 1
	}
	sent := p.sent[of]
	for len(sent) > 0 && now.at.Sub(sent[0].at) >= time.Second {
		sent = sent[1:]
	}
	p.checked += min(1, len(sent))
	sent = append(sent, now)
	if p.sent == nil {
		p.sent = map[string][]sending{}
	}
	p.sent[of] = sent
	calls, several := 0, map[*call]bool{}
	for _, s := range sent {
		several[s.of] = true
		calls = max(calls, s.calls, len(several))
	}
	if len(sent) > mostASecond*calls {
		p.hectic = fmt.Sprintf("%d commands of %d calls, the last is %v", len(sent), calls, command)
	}
}

// entriesOf are the ids that a command names, without that of the driver's session.
func entriesOf(command bson.Raw) []string {
	own := history.IDs(command.Lookup("lsid").Value)
	return slices.DeleteFunc(history.IDs(command), func(id string) bool { return slices.Contains(own, id) })
}

// succeeds forgets what was sent before.
func (p *pace) succeeds() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.sent)
}

func (s *run) checkPace(counts *tally.Tally) {
	for _, p := range s.programs {
		counts.Checked(CallsRest, p.pace.checked)
		if p.pace.hectic != "" {
			counts.Violated(CallsRest, "seed %d: program %d, %s", s.seed, p.number, p.pace.hectic)
		}
	}
}
