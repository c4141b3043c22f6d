package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"log"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/writelock"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// A replica is one server of the application. It keeps nothing in memory, so any
// replica goes on with what another one has begun.
type replica struct {
	name  string // shown on each page
	pages *mongo.Collection
	locks *writelock.Locker
}

// A page is a document of the collection.
type page struct {
	ID    string `bson:"_id"`
	Text  string `bson:"text"`
	Saves int    `bson:"saves"` // how often it was saved
}

// newReplica makes a replica. Its leases last until two minutes after the last
// heartbeat: browsers slow down the timers of tabs in the background.
func newReplica(name string, pages *mongo.Collection) (*replica, error) {
	locks, err := writelock.New(pages, doclock.TTL(2*time.Minute))
	return &replica{name: name, pages: pages, locks: locks}, err
}

func (r *replica) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{page}", r.show)
	mux.HandleFunc("POST /{page}/edit", func(w http.ResponseWriter, req *http.Request) { r.edit(w, req) })
	mux.HandleFunc("POST /{page}/touch", r.touch)
	mux.HandleFunc("POST /{page}/save", r.save)
	mux.HandleFunc("POST /{page}/cancel", r.cancel)
	mux.HandleFunc("POST /{page}/break", r.breakLock)
	return mux
}

// show shows the page to everybody.
func (r *replica) show(w http.ResponseWriter, req *http.Request) {
	var p page
	if err := r.pages.FindOne(req.Context(), doclock.ID(req.PathValue("page"))).Decode(&p); err != nil {
		r.fail(w, err)
		return
	}
	r.render(w, http.StatusOK, "show", p)
}

// breakLock ends the lock that this user has been shown, and opens the form. After each save
// it has another id and fence, and so has the next one's lock: neither is ended unseen.
func (r *replica) breakLock(w http.ResponseWriter, req *http.Request) {
	id, noID := uuid.Parse(req.FormValue("entry"))
	fence, noFence := strconv.ParseInt(req.FormValue("fence"), 10, 64)
	if err := errors.Join(noID, noFence); err != nil {
		r.fail(w, fmt.Errorf("%w: %w", doclock.ErrInvalidArgument, err))
		return
	}
	r.edit(w, req, doclock.TakeOver(doclock.Holder{ID: id, Fence: fence}))
}

//go:embed pages.html
var html string

var templates = template.Must(template.New("").Parse(html))

func (r *replica) render(w http.ResponseWriter, status int, name string, data any) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	if err := templates.ExecuteTemplate(w, name, map[string]any{"Replica": r.name, "Data": data}); err != nil {
		log.Print(err)
	}
}

// fail answers with the error.
func (r *replica) fail(w http.ResponseWriter, err error) {
	r.render(w, status(err), "fault", err.Error())
}

func status(err error) int {
	switch {
	case errors.Is(err, doclock.ErrLost), errors.Is(err, errOtherTab):
		return http.StatusConflict
	case errors.Is(err, doclock.ErrNotFound), errors.Is(err, mongo.ErrNoDocuments):
		return http.StatusNotFound
	case errors.Is(err, doclock.ErrInvalidArgument):
		return http.StatusBadRequest
	default:
		return http.StatusServiceUnavailable
	}
}

// pathOf is a page's path here, also if its name begins as a URL of another host does.
func pathOf(page string) string { return "/" + url.PathEscape(page) }

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
// whoever has the token. A user's own lock, of a tab that is gone, is taken back.
func (r *replica) edit(w http.ResponseWriter, req *http.Request, opts ...doclock.AcquireOption) {
	ctx, f := req.Context(), formOf(req)
	opts = append(opts, doclock.Into(&f.page), doclock.Owner(f.User))
	lease, err := r.locks.TryAcquire(ctx, doclock.ID(f.ID), opts...)
	conflict := (*doclock.ConflictError)(nil)
	if errors.As(err, &conflict) && conflict.Holders[0].Owner == f.User {
		lease, err = r.locks.TryAcquire(ctx, doclock.ID(f.ID), append(opts, doclock.TakeOver(conflict.Holders...))...)
	}
	if errors.As(err, &conflict) {
		r.render(w, http.StatusConflict, "conflict", map[string]any{"Form": f, "Holder": conflict.Holders[0]})
		return
	}
	if err != nil {
		r.fail(w, err)
		return
	}
	f.Token, err = lease.Detach(ctx)
	if err != nil {
		_ = lease.Release(context.WithoutCancel(ctx)) // the browser may have gone: nobody has the form
		r.fail(w, err)
		return
	}
	r.render(w, http.StatusOK, "form", f)
}

// touch is the heartbeat of an open form.
func (r *replica) touch(w http.ResponseWriter, req *http.Request) {
	if err := r.locks.Touch(req.Context(), doclock.ID(req.PathValue("page")), req.FormValue("token")); err != nil {
		r.fail(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// cancel closes the form without a save.
func (r *replica) cancel(w http.ResponseWriter, req *http.Request) {
	lease, err := r.locks.Resume(req.Context(), doclock.ID(req.PathValue("page")), req.FormValue("token"))
	if err == nil {
		err = lease.Release(req.Context())
	}
	if err != nil && !errors.Is(err, doclock.ErrLost) && !errors.Is(err, doclock.ErrNotFound) { // the form holds nothing anyway
		r.fail(w, err)
		return
	}
	http.Redirect(w, req, pathOf(req.PathValue("page")), http.StatusSeeOther)
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
		http.Redirect(w, req, pathOf(f.ID), http.StatusSeeOther)
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
// tab had it, if the page is the one that the form has shown, and the second is
// refused if the lock was taken or broken meanwhile.
func (r *replica) store(ctx context.Context, f *form, goOn bool) error {
	lease, err := r.locks.Resume(ctx, bson.M{"_id": f.ID, "saves": f.Saves}, f.Token)
	if errors.Is(err, doclock.ErrNotFound) && r.pages.FindOne(ctx, doclock.ID(f.ID)).Err() == nil {
		return errOtherTab
	}
	if err != nil {
		return err // ErrLost: the lock was broken, or it has expired and others have edited the page
	}
	change := bson.M{"$set": bson.M{"text": f.Text}, "$inc": bson.M{"saves": 1}}
	if !goOn {
		return lease.UpdateAndRelease(ctx, change)
	}
	err = lease.Update(ctx, change)
	if err == nil {
		f.Saves++
	}
	_, _ = lease.Detach(ctx) // the form goes on with the token; the heartbeat tells what becomes of the lock
	return err
}
