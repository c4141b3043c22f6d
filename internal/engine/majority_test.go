package engine

import (
	"testing"

	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

// Whatever the collection's settings are, an answered command was acknowledged
// by a majority: an election doesn't undo it.
func TestMajority(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t, options.Collection().SetWriteConcern(writeconcern.W1()).SetReadConcern(readconcern.Local()))
	w.Insert(hello())
	p := w.peer(relations.Fair())
	g := p.acquire(ann, "read", Granted)
	q := p.acquire(bob, "write", Waiting)
	p.renew(g, Renewed)
	p.write(g, bson.M{"$inc": bson.M{"count": 1}}, 1, Applied)
	p.release(g, Released)
	q = p.confirm(q, Granted)
	p.read(q)
	p.finish(q, bson.M{"$inc": bson.M{"count": 1}}, Applied)
	for _, command := range w.sent.All() {
		elements, err := command.Elements()
		if err != nil {
			t.Fatal(err)
		}
		concern, of := "writeConcern", []string{"writeConcern", "w"}
		if elements[0].Key() == "find" {
			concern, of = "readConcern", []string{"readConcern", "level"}
		}
		if got, _ := command.Lookup(of...).StringValueOK(); got != "majority" && !fixture.IsProof(command) {
			t.Errorf("the %s of %v is %q", concern, command, got)
		}
	}
}
