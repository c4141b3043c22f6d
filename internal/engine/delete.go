package engine

import "context"

// Delete deletes the document, and the lock in it, under the guard. The outcome
// is Released. If the guard matches nothing, a read finds the reason. If the
// entry or the document is not there, the outcome is Lost. If the entry is
// there, a race is lost: DocumentDB's delete may pass over a document that is
// being updated at that moment.
func (e *Engine) Delete(ctx context.Context, g Grant) (Answer, error) {
	found, sent, err := e.send(ctx, change{comment: forDelete, query: e.Guard(g), delete: true})
	a := Answer{Outcome: Released, Sent: sent}
	if found != nil || err != nil {
		return a, err
	}
	a.Outcome = Lost
	return e.proven(ctx, a, g.Pin, g.owns, "the document was being updated")
}
