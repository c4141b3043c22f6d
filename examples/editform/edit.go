package main

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/doclock/doclock"
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
