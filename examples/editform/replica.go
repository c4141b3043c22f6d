package main

import (
	"net/http"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/writelock"
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
