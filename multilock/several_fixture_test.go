package multilock_test

import (
	"slices"
	"testing"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/multilock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// newPlaces are documents 1 to n of one collection, each with a total of 10.
func newPlaces(t testing.TB, n int) *place {
	t.Helper()
	d := fixture.NoDocument(t)
	p := &place{Document: d, coll: d.Hand}
	p.furnish(p.coll, n)
	return p
}

func (p *place) furnish(coll *mongo.Collection, n int) {
	p.Helper()
	for id := range n {
		if _, err := coll.InsertOne(p.bounded(), bson.M{"_id": id + 1, "total": 10}); err != nil {
			p.Fatal(err)
		}
	}
}

type stored struct {
	Total int
	Lock  lock
}

func (p *place) at(id any) (doc stored) {
	p.Helper()
	if err := p.coll.FindOne(p.bounded(), doclock.ID(id)).Decode(&doc); err != nil {
		p.Fatal(err)
	}
	return doc
}

// held are the ids of the documents that have an entry.
func (p *place) held() (ids []int) {
	p.Helper()
	cursor, err := p.coll.Find(p.bounded(), bson.M{})
	if err != nil {
		p.Fatal(err)
	}
	var docs []struct {
		ID   int `bson:"_id"`
		Lock lock
	}
	if err := cursor.All(p.bounded(), &docs); err != nil {
		p.Fatal(err)
	}
	for _, doc := range docs {
		for _, entries := range doc.Lock.Tags {
			for range entries {
				ids = append(ids, doc.ID)
			}
		}
	}
	slices.Sort(ids)
	return ids
}

func (p *place) wantHeld(ids ...int) {
	p.Helper()
	if held := p.held(); !slices.Equal(held, ids) {
		p.Errorf("entries are in the documents %v, want %v", held, ids)
	}
}

func (p *place) eraseOf(id any) {
	p.Helper()
	if _, err := p.coll.UpdateOne(p.bounded(), doclock.ID(id), bson.M{"$unset": bson.M{"lock.tags": 1}}); err != nil {
		p.Error(err)
	}
}

// of are write locks of these documents.
func of(l *multilock.Locker, ids ...any) (wants []multilock.Want) {
	for _, id := range ids {
		wants = append(wants, l.Want(doclock.ID(id), "write"))
	}
	return wants
}
