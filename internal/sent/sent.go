// Package sent has every command that the engine sends, as it is sent: for the test that
// keeps them, and for those that evaluate them.
package sent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Command is one, without what a connection, a session or a deadline adds.
type Command struct {
	Name string
	Sent bson.D
}

// Epoch is the time at which a lock was acquired whose commands these are. Fence is its
// fencing token, and ID its entry's, which Next follows.
var (
	Epoch = time.Date(2030, 6, 1, 12, 0, 0, 0, time.UTC)
	Fence = Epoch.UnixMilli()
	ID    = uuid.MustParse("11111111-2222-4333-8444-555555555555")
	Next  = uuid.MustParse("66666666-7777-4888-9999-000000000000")
)

const (
	ttl     = 10 * time.Second
	waitTTL = 4 * time.Second
	extra   = 500 * time.Millisecond
)

// Commands sends every command for one tag, on a server in memory whose document has no
// lock. They are the same ones each time.
func Commands(rules relations.Rules, owner, tag string, shardKey ...string) (all []Command, err error) {
	rec := &recorder{}
	mem := locktest.Start()
	defer mem.Close()
	client := mem.Connect(options.Client().SetMonitor(&event.CommandMonitor{Started: rec.started}))
	coll := client.Database("test").Collection("documents")
	ctx := context.Background()
	if _, err := coll.InsertOne(ctx, bson.D{{Key: "_id", Value: 1}}); err != nil {
		return nil, err
	}
	e, err := engine.New(coll, rules, engine.Config{
		Terms: engine.Terms{TTL: ttl, Owner: owner}, WaitTTL: waitTTL, Tolerance: extra, Field: engine.DefaultField, ShardKey: shardKey,
	})
	if err != nil {
		return nil, err
	}
	filter, err := e.ParseFilter(bson.D{{Key: "_id", Value: 1}})
	if err != nil {
		return nil, err
	}
	pinned := bson.D{{Key: "_id", Value: 1}}
	for _, key := range shardKey[:max(0, len(shardKey)-1)] { // the last one is the _id
		pinned = append(pinned, bson.E{Key: key, Value: "eu"})
	}
	exact, err := e.ParseFilter(pinned)
	if err != nil {
		return nil, err
	}
	open, err := e.ParseFilter(append(pinned, bson.E{Key: "state", Value: "open"}))
	if err != nil {
		return nil, err
	}
	classic, err := e.ParseUpdate(bson.M{"$inc": bson.M{"n": 1}})
	if err != nil {
		return nil, err
	}
	pipeline, err := e.ParseUpdate(bson.A{bson.M{"$set": bson.M{"n": 1}}})
	if err != nil {
		return nil, err
	}
	docID := bson.RawValue{Type: bson.TypeInt32, Value: []byte{1, 0, 0, 0}}
	g := engine.Grant{Pin: engine.Pin{{Key: "_id", Value: docID}}, Alone: Fence, Entry: engine.Entry{Tag: tag, ID: ID, Fence: Fence}}
	k := engine.Token{Tag: tag, Secret: uuid.MustParse("aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee")}
	resumed := g
	resumed.Key = k.Key()
	r := engine.Request{Tag: tag, ID: g.ID}
	document, try, takes := r, r, r
	document.Document, try.Try = true, true
	takes.TakeOver = []engine.Entry{{ID: Next, Fence: Fence}, {ID: Next}}
	by := func(t engine.Terms) engine.Request {
		r := r
		r.Terms = t
		return r
	}
	longer, kept, from := g, g, g
	longer.TTL, kept.Until, from.Tag = 2*ttl, Epoch.Add(ttl+extra), e.Rules().Tags()[0]
	next := engine.Successor{Request: engine.Request{Tag: tag, ID: Next, Document: true}}
	waiting := next
	waiting.Waiting = true
	entry := engine.Exact{Pin: g.Pin, Tag: tag, ID: g.ID, Fence: g.Fence}
	expired := entry
	expired.Expired = Epoch.Add(ttl)
	survey := func(s engine.Survey) error {
		images, err := e.Survey(ctx, s)
		if err != nil {
			return err
		}
		for _, err := range images {
			if err != nil {
				return err
			}
		}
		return nil
	}
	ids := []uuid.UUID{g.ID, Next}
	rec.begin("acquire").got(e.Acquire(ctx, filter, r))
	rec.begin("acquire, with the document").got(e.Acquire(ctx, filter, document))
	rec.begin("try").got(e.Acquire(ctx, filter, try))
	rec.begin("acquire and take over").got(e.Acquire(ctx, filter, takes))
	rec.begin("claim two").got(claimed(e.ClaimAll(ctx, open, r, []engine.Pin{g.Pin, g.Pin})))
	rec.begin("read what was claimed").got(e.ClaimedOf(ctx, document, []engine.Pin{g.Pin}, false))
	rec.begin("confirm").got(e.Confirm(ctx, filter, g.Pin, r))
	rec.begin("renew").got(e.Renew(ctx, g))
	rec.begin("renew two").got(e.RenewAll(ctx, []engine.Grant{g, g}))
	rec.begin("standing").got(standing(e.Standing(ctx, []engine.Grant{g})))
	rec.begin("read").got(e.Read(ctx, g.Pin))
	rec.begin("write, classic").got(e.Write(ctx, g, classic, 1))
	rec.begin("write, pipeline").got(e.Write(ctx, g, pipeline, 1))
	rec.begin("write and release, classic").got(e.WriteAndRelease(ctx, g, classic))
	rec.begin("write and release, pipeline").got(e.WriteAndRelease(ctx, g, pipeline))
	rec.begin("handoff").got(e.Handoff(ctx, g, next))
	rec.begin("handoff to a waiting entry").got(e.Handoff(ctx, g, waiting))
	rec.begin("write and hand off, classic").got(e.WriteAndHandOff(ctx, g, classic, next))
	rec.begin("write and hand off, pipeline").got(e.WriteAndHandOff(ctx, g, pipeline, next))
	rec.begin("release").got(e.Release(ctx, g))
	rec.begin("release two").got(e.ReleaseAll(ctx, []engine.Grant{g, kept}))
	rec.begin("detach").got(e.Detach(ctx, g, k.Key()))
	rec.begin("resume, with the document").got(e.Resume(ctx, exact, k, document))
	rec.begin("resume, more demanded, another owner").got(e.Resume(ctx, open, k, by(engine.Terms{Owner: "$$e.id"})))
	rec.begin("touch").got(e.Touch(ctx, exact, k, ttl))
	rec.begin("touch, more demanded").got(e.Touch(ctx, open, k, 2*ttl))
	rec.begin("release, after a resume").got(e.Release(ctx, resumed))
	rec.begin("write and hand off, classic, after a resume").got(e.WriteAndHandOff(ctx, resumed, classic, next))
	rec.begin("convert").got(e.Convert(ctx, from, 1, engine.Request{Tag: tag, ID: Next}))
	rec.begin("remove two").got(e.Remove(ctx, engine.Filter{Pin: g.Pin}, tag, ids))
	rec.begin("acquire by terms").got(e.Acquire(ctx, filter, by(engine.Terms{TTL: 2 * ttl, Owner: "another"})))
	rec.begin("acquire and hold at least").got(e.Acquire(ctx, filter, by(engine.Terms{Least: 3 * ttl})))
	rec.begin("confirm and hold at least").got(e.Confirm(ctx, filter, g.Pin, by(engine.Terms{Least: 3 * ttl})))
	rec.begin("renew by terms").got(e.Renew(ctx, longer))
	rec.begin("write and release to a remainder, pipeline").got(e.WriteAndRelease(ctx, kept, pipeline))
	rec.begin("handoff from a remainder").got(e.Handoff(ctx, kept, next))
	rec.begin("release to a remainder").got(e.Release(ctx, kept))
	rec.begin("look, with the document").got(e.Look(ctx, g, true))
	rec.begin("delete").got(e.Delete(ctx, g))
	rec.begin("admin: find").got(e.Find(ctx, filter))
	rec.begin("admin: remove").got(e.RemoveExactly(ctx, entry))
	rec.begin("admin: remove two, expired").got(e.RemoveEach(ctx, []engine.Exact{entry, expired}))
	rec.begin("admin: survey").got(nil, survey(engine.Survey{Owner: owner, Age: time.Minute, Live: true}))
	rec.begin("admin: survey of a tag").got(nil, survey(engine.Survey{Within: filter, Tags: []string{tag}, Expired: true}))
	rec.begin("admin: survey of idle ones").got(nil, survey(engine.Survey{Idle: time.Hour}))
	rec.begin("admin: delete idle ones").got(e.DeleteIdle(ctx, []engine.Pin{g.Pin}, time.Hour))
	return rec.all, rec.err
}

func claimed(made int, _ bool, err error) (any, error) { return made, err }

func standing(_ []engine.Standing, _ engine.Reading, err error) (any, error) {
	return nil, err
}

// recorder has the first command of each call. Others are proofs of an answer.
type recorder struct {
	name string
	all  []Command
	err  error
}

// begin begins a call.
func (r *recorder) begin(name string) *recorder {
	r.name = name
	return r
}

// got ends a call.
func (r *recorder) got(_ any, err error) {
	if r.name != "" && err == nil {
		err = errors.New("nothing was sent")
	}
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("%s: %w", r.all[len(r.all)-1].Name, err)
	}
}

func (r *recorder) started(_ context.Context, started *event.CommandStartedEvent) {
	if r.name == "" {
		return
	}
	var command bson.D
	if err := bson.Unmarshal(namedRemainder(started.Command), &command); err != nil && r.err == nil {
		r.err = err
	}
	command = slices.DeleteFunc(command, func(e bson.E) bool {
		return slices.Contains([]string{"lsid", "$clusterTime", "txnNumber", "maxTimeMS", "$db", "$readPreference"}, e.Key)
	})
	r.all, r.name = append(r.all, Command{r.name, command}), ""
}

// namedRemainder gives a remainder, whose id is random, an id that is the same in every
// run.
func namedRemainder(command bson.Raw) bson.Raw {
	command = bytes.Clone(command)
	const prefix = "\x10\x00\x00\x00\x04" // of a UUID
	for i := range command[:len(command)-len(ID)-len(prefix)] {
		id := command[i+len(prefix) : i+len(prefix)+len(ID)]
		if bytes.HasPrefix(command[i:], []byte(prefix)) && !slices.Contains([]uuid.UUID{ID, Next}, uuid.UUID(id)) {
			copy(id, "remainder's id..")
		}
	}
	return command
}
