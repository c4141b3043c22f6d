package main

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/doclock/doclock"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// A form is what the browser keeps of an edit. Its token holds the lock.
type form struct {
	page
	User, Token string
}

func formOf(req *http.Request) form {
	saves, err := strconv.Atoi(req.FormValue("saves"))
	if err != nil {
		saves = -1 // of no page
	}
	return form{page{req.PathValue("page"), req.FormValue("text"), saves}, req.FormValue("user"), req.FormValue("token")}
}

// edit opens the form: it locks and reads the page, and leaves the lock to
// whoever has the token.
func (r *replica) edit(w http.ResponseWriter, req *http.Request) {
	ctx, f := req.Context(), formOf(req)
	lease, err := r.locks.TryAcquire(ctx, doclock.ID(f.ID), doclock.Into(&f.page), doclock.Owner(f.User))
	if conflict := (*doclock.ConflictError)(nil); errors.As(err, &conflict) {
		r.render(w, http.StatusConflict, "conflict", map[string]any{"Form": f, "Holder": conflict.Holders[0]})
		return
	}
	if err == nil {
		f.Token, err = lease.Detach(ctx)
	}
	if err != nil {
		r.fail(w, err)
		return
	}
	r.render(w, http.StatusOK, "form", f)
}

// touch is the heartbeat of an open form.
func (r *replica) touch(w http.ResponseWriter, req *http.Request) {
	if err := r.locks.Touch(req.Context(), req.FormValue("token")); err != nil {
		r.fail(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// cancel closes the form without a save.
func (r *replica) cancel(w http.ResponseWriter, req *http.Request) {
	lease, err := r.locks.Resume(req.Context(), req.FormValue("token"))
	if err == nil {
		err = lease.Release(req.Context())
	}
	if err != nil && !errors.Is(err, doclock.ErrLost) { // ErrLost: the form holds nothing anyway
		r.fail(w, err)
		return
	}
	http.Redirect(w, req, "/"+req.PathValue("page"), http.StatusSeeOther)
}

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
