package claims

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// note takes in a line of a worker. A process that was killed may have left half
// of one.
func (r *run) note(process, line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := claimed{process: process}
	var n int
	switch {
	case scanned(line, "claimed %d %d %d", &c.id, &c.begun, &c.ended) && c.ended > 1e18:
		r.claims = append(r.claims, c)
		r.t.Checked(NoErrors, 1)
	case scanned(line, "nothing %d %d", &c.begun, &c.ended) && c.ended > 1e18:
		if len(r.nothing) == 0 {
			r.Claims, r.Commands = len(r.claims), r.commands
		}
		r.nothing = append(r.nothing, c.span)
	case scanned(line, "commands %d", &n):
		r.commands += n
	case scanned(line, "lost %d", &n):
		r.t.Seen(Lost, 1)
	case len(line) > 6 && line[:6] == "failed":
		r.t.Violated(NoErrors, "%s", line)
	}
}

func scanned(line, format string, into ...any) bool {
	n, err := fmt.Sscanf(line, format, into...)
	return err == nil && n == len(into)
}

// check compares what the workers said with the documents. The processes have
// ended.
func (r *run) check(ctx context.Context) error {
	var docs []struct {
		ID       int `bson:"_id"`
		Priority int
		Done     int
	}
	cursor, err := r.jobs.Find(ctx, bson.M{})
	if err != nil {
		return err
	}
	if err := cursor.All(ctx, &docs); err != nil {
		return err
	}
	priority := map[int]int{}
	for _, doc := range docs {
		priority[doc.ID] = doc.Priority
		r.t.Checked(Once, 1)
		if doc.Done != 1 {
			r.t.Violated(Once, "job %d is done %d times", doc.ID, doc.Done)
		}
	}
	r.again()
	first := r.first()
	r.idle(first)
	for _, c := range r.claims {
		distance := 0
		for id, begun := range first {
			if begun > c.ended && priority[id] > priority[c.id] {
				distance++
			}
		}
		r.Distances = append(r.Distances, distance)
	}
	return nil
}

// first is when the first claim of each job began: the job was free until then.
// The jobs that the dead process held are left out.
func (r *run) first() map[int]int64 {
	first := map[int]int64{}
	for _, c := range r.claims {
		begun, known := first[c.id]
		if _, dead := r.dead[c.id]; !dead && (!known || c.begun < begun) {
			first[c.id] = c.begun
		}
	}
	r.t.Seen(Known, len(first))
	return first
}

// again checks the claims of the dead process's jobs by the others. A job without
// one was done by the last command of the dead.
func (r *run) again() {
	for id, expires := range r.dead {
		var last int64
		for _, c := range r.claims {
			if c.id == id && c.process != dying {
				last = max(last, c.ended)
			}
		}
		if last == 0 {
			continue
		}
		r.t.Checked(Expired, 1)
		if at := time.Unix(0, last); at.Before(expires) {
			r.t.Violated(Expired, "job %d is claimed %v before its entry expires", id, expires.Sub(at))
		}
	}
}

// idle checks the claims that found nothing, by the job that was free the
// longest.
func (r *run) idle(first map[int]int64) {
	var latest int64
	for _, begun := range first {
		latest = max(latest, begun)
	}
	for _, s := range r.nothing {
		r.t.Checked(NotIdle, 1)
		if latest > s.ended {
			r.Idle++
			r.t.Violated(NotIdle, "a job was free for %v more", time.Duration(latest-s.ended))
		}
	}
}
