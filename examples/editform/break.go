package main

import (
	"fmt"
	"net/http"

	"github.com/doclock/doclock"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

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
