package storm

import (
	"context"
	"errors"
	"time"

	"github.com/doclock/doclock/admin"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// The faults.
const (
	FaultRefused     = "in memory: command refused"
	FaultRequestLost = "in memory: request lost"
	FaultReplyLost   = "in memory: reply lost"
	FaultDelayed     = "in memory: request delayed"
	FaultDown        = "in memory: server down for less than a TTL"
	FaultDownLong    = "in memory: server down for longer than a TTL"
	FaultClock       = "in memory: server's clock set forward"
	FaultBroken      = "in memory: entry broken by admin.Break"
	FaultLose        = "in memory: lease taken away"
)

// forbidden is the reason of a refusal: the command was certainly not executed.
const forbidden = "the storm forbids it"

// faults has the server do wrong.
func (r runner) faults(over context.Context) {
	for over.Err() == nil {
		time.Sleep(r.upTo(2 * time.Second))
		n := 1 + r.IntN(3)
		switch k := r.IntN(40); {
		case k < 8:
			r.mem.Fail(n, []mongo.CommandError{
				{Code: 13, Message: forbidden},                       // a refusal
				{Code: 11600, Message: "the storm interrupts"},       // which passes
				{Code: 424242, Message: "the storm answers nothing"}, // which proves nothing
			}[r.IntN(3)])
			r.fire(FaultRefused)
		case k < 16:
			r.mem.LoseRequests(n)
			r.fire(FaultRequestLost)
		case k < 25:
			r.mem.LoseReplies(n)
			r.fire(FaultReplyLost)
		case k < 34:
			r.mem.Delay(n, r.upTo(4*time.Second))
			r.fire(FaultDelayed)
		case k < 37:
			r.fire(FaultDown)
			r.down(r.upTo(3 * time.Second))
		case k < 38:
			r.fire(FaultDownLong)
			r.down(8*time.Second + r.upTo(30*time.Second))
		default:
			r.mem.Advance(r.upTo(3 * time.Second))
			r.fire(FaultClock)
		}
	}
}

// down lets no server be reachable for a time. A command that waits for one counts
// as sent, and is not seen.
func (r runner) down(d time.Duration) {
	from := time.Now()
	r.mem.Down(errors.New("the storm has cut the cable"))
	r.mu.Lock()
	r.unsure = append(r.unsure, span{from, from.Add(d + time.Second)})
	r.mu.Unlock()
	time.Sleep(d)
	r.mem.Up()
}

// peace ends the faults for good.
func (s *storm) peace() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.mem.Fail(0, mongo.CommandError{})
	s.mem.LoseRequests(0)
	s.mem.LoseReplies(0)
	s.mem.Delay(0, 0)
	s.mem.Up()
}

// peaceful says that there are no faults any more.
func (s *storm) peaceful() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

func (s *storm) fire(fault string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fired[fault]++
}

// garden makes deleted documents anew, and breaks entries.
func (r runner) garden(over context.Context) {
	for over.Err() == nil {
		time.Sleep(r.upTo(time.Second))
		bounded, cancel := context.WithTimeout(over, time.Second)
		for _, name := range documents {
			_, _ = r.apart.UpdateOne(bounded, bson.M{"_id": name}, bson.M{"$set": bson.M{"state": "open"}}, options.UpdateOne().SetUpsert(true))
		}
		if r.one(8) {
			r.breakOne(bounded)
		}
		cancel()
	}
}

// breakOne breaks an entry, as an operator does.
func (r runner) breakOne(ctx context.Context) {
	for e, err := range admin.Entries(ctx, r.apart, admin.Query{Only: admin.Live}) {
		if err != nil {
			return
		}
		if r.one(3) {
			if _, err := admin.Break(ctx, r.apart, e); err == nil {
				r.fire(FaultBroken)
			}
			return
		}
	}
}
