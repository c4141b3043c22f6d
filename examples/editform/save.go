package main

import (
	"context"
	"errors"
	"net/http"

	"github.com/doclock/doclock"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// save saves the text, and closes the form or goes on with it. It never says
// that the text was saved if it was not, or may not have been.
func (r *replica) save(w http.ResponseWriter, req *http.Request) {
	f, goOn := formOf(req), req.FormValue("then") == "go on"
	err := r.store(req.Context(), &f, goOn)
	switch {
	case err == nil && goOn:
		r.render(w, http.StatusOK, "form", f)
	case err == nil:
		http.Redirect(w, req, "/"+f.ID, http.StatusSeeOther)
	case errors.Is(err, doclock.ErrOutcomeUnknown):
		r.render(w, http.StatusBadGateway, "unknown", f)
	default:
		reason := "Your save failed: " + err.Error() + "."
		if errors.Is(err, errOtherTab) {
			reason = "You have saved the page from another tab since."
		} else if errors.Is(err, doclock.ErrLost) {
			reason = "Your lock is gone: somebody has broken it, or the form was closed in another tab."
		}
		r.render(w, status(err), "refused", map[string]any{"Form": f, "Reason": reason})
	}
}

var errOtherTab = errors.New("the page was saved from another tab since")

// store writes the text in two commands: the first takes the lock from whatever
// tab had it and reads the page, the second is refused if the lock was taken
// or broken meanwhile.
func (r *replica) store(ctx context.Context, f *form, goOn bool) error {
	var now page
	lease, err := r.locks.Resume(ctx, f.Token, doclock.Into(&now), doclock.Owner(f.User))
	if err != nil {
		return err // ErrLost: the lock was broken, or it has expired and others have edited the page
	}
	if now.Saves != f.Saves {
		_, err := lease.Detach(ctx)
		return errors.Join(errOtherTab, err)
	}
	change := bson.M{"$set": bson.M{"text": f.Text}, "$inc": bson.M{"saves": 1}}
	if !goOn {
		return lease.UpdateAndRelease(ctx, change)
	}
	if err := lease.Update(ctx, change); err != nil {
		return err
	}
	f.Saves++
	_, _ = lease.Detach(ctx) // the text is saved whatever becomes of the lock, of which the heartbeat tells
	return nil
}
