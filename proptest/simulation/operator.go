package simulation

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/proptest/history"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
)

// operator is a client without faults. It makes deleted documents anew, breaks entries,
// and reads documents: the images between the commands show, for example, a renewal's
// expiry.
type operator struct {
	*run
	number   int // of its process in the history
	coll     *mongo.Collection
	recorder *history.Recorder
	reads    atomic.Int64 // of documents, one after the other
}

func (o *operator) work(ctx context.Context, r runner) {
	for i := 0; ctx.Err() == nil; i++ {
		if o.virtual() {
			r.pause(time.Second)
		} else {
			sleep(ctx, 25*time.Millisecond)
		}
		bounded, cancel := context.WithTimeout(ctx, 10*time.Second/o.pace)
		o.see(bounded)
		if o.virtual() || i%4 == 0 {
			for _, g := range o.groups {
				for _, name := range g.deleted {
					_, _ = o.coll.UpdateOne(bounded, bson.M{"_id": name}, bson.M{"$set": bson.M{"group": g.name}}, options.UpdateOne().SetUpsert(true))
				}
			}
		}
		if r.one(8) {
			o.breakOne(bounded, r)
		}
		cancel()
	}
}

// see reads one document after the other, each as a majority of members has it.
func (o *operator) see(ctx context.Context) {
	var all []string
	for _, g := range o.groups {
		all = append(all, g.documents...)
	}
	next := bson.M{"_id": all[int(o.reads.Add(1))%len(all)]}
	projection := bson.M{"lock": 1, "__doclockNow": "$$NOW"} // as the recorder knows it
	coll := o.coll
	if o.apart != 0 {
		coll = coll.Clone(options.Collection().SetReadConcern(readconcern.Linearizable()))
	}
	_ = coll.FindOne(ctx, next, options.FindOne().SetProjection(projection)).Err() // of a missing document, or at the end
}

// breakOne breaks an entry of a document whose history need not be linear.
func (o *operator) breakOne(ctx context.Context, r runner) {
	var names []string
	for _, g := range o.groups {
		if g.terms {
			names = append(names, g.documents...)
		}
	}
	for e, err := range admin.Entries(ctx, o.coll, admin.Query{Only: admin.Live}) {
		name, _ := e.DocumentID.StringValueOK()
		if err == nil && slices.Contains(names, name) && r.one(3) {
			if _, err := admin.Break(ctx, o.coll, e); err == nil {
				o.fire(FaultBroken)
			}
			return
		}
	}
}

func (o *operator) entries() (all []admin.Entry) {
	for e, err := range admin.Entries(context.Background(), o.coll, admin.Query{}) {
		switch {
		case err == nil:
			all = append(all, e)
		case !errors.Is(err, doclock.ErrForeignLock):
			o.fault("the entries can't be read: %v", err)
			return nil
		}
	}
	return all
}

func (o *operator) log(name string) []string {
	var found struct{ Log []string }
	if err := o.coll.FindOne(context.Background(), bson.M{"_id": name}).Decode(&found); err != nil && !errors.Is(err, mongo.ErrNoDocuments) {
		o.fault("the log of %s can't be read: %v", name, err)
	}
	return found.Log
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
