package main

import (
	_ "embed"
	"errors"
	"html/template"
	"log"
	"net/http"

	"github.com/doclock/doclock"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

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
