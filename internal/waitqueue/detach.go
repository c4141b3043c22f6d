package waitqueue

import (
	"time"

	"github.com/doclock/doclock/internal/engine"
)

// Detached notes that the grant's entry was left to a token, or may have been. It stays in the document, and
// this process will not release it: its waiters poll, as for an entry of another
// process.
func (q *Queues) Detached(g engine.Grant) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if d := q.queues[Key(g.Pin)]; d != nil {
		delete(d.view.own, g.ID)
		d.close(g.ID)
		d.stirred = true
		d.judge()
		q.drop(d)
	}
}

// Resumed takes in the image of a resume's answer: the entry has another id than
// before.
func (q *Queues) Resumed(document string, img *engine.Image, sent time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if d := q.queues[document]; d != nil {
		d.observe(img, sent)
		d.judge()
		q.drop(d)
	}
}
