package main

import (
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"log"
	"net/http"
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
	mux.HandleFunc("POST /{page}/edit", r.edit)
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

// breakLock removes the entry that this user has been shown, and opens the form.
// The entry has another id after each save, and so has the next one's lock:
// neither is broken unseen.
func (r *replica) breakLock(w http.ResponseWriter, req *http.Request) {
	id, err := uuid.Parse(req.FormValue("entry"))
	if err != nil {
		r.fail(w, fmt.Errorf("%w: %w", doclock.ErrInvalidArgument, err))
		return
	}
	entry := bson.M{"id": bson.Binary{Subtype: bson.TypeBinaryUUID, Data: id[:]}}
	_, err = r.pages.UpdateOne(req.Context(), doclock.ID(req.PathValue("page")), bson.M{"$pull": bson.M{"lock.tags.write": entry}})
	if err != nil {
		r.fail(w, err)
		return
	}
	r.edit(w, req)
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
