package hammer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/proptest/history"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// worker is one process.
type worker struct {
	order
	clock    history.Clock
	out      *history.Writer
	recorder *history.Recorder
	coll     *mongo.Collection // recorded, and with faults
	quiet    *mongo.Collection // the observer's
	tokens   *tokens
}

func work(o order, stdout io.Writer) error {
	w := &worker{order: o, clock: history.NewClock(), tokens: &tokens{}, out: history.NewWriter(stdout)}
	w.recorder = history.NewRecorder(o.Process, o.Database, w.clock, w.out)
	net := faultnet.New()
	watched, err := mongo.Connect(options.Client().ApplyURI(o.URI).SetDialer(net).SetMonitor(w.recorder.Monitor()))
	if err != nil {
		return err
	}
	quiet, err := mongo.Connect(options.Client().ApplyURI(o.URI))
	if err != nil {
		return err
	}
	w.coll = watched.Database(o.Database).Collection(collection)
	w.quiet = quiet.Database(o.Database).Collection(collection)

	rng := func(n int) *rand.Rand { return rand.New(rand.NewPCG(o.Seed, uint64(1000*(o.Process+1)+n))) }
	ctx, cancel := context.WithCancel(context.Background())
	var around, clients sync.WaitGroup
	around.Go(func() { w.observe(ctx) })
	if o.Faults {
		storm := &weather{net: net, recorder: w.recorder, out: w.out, rng: rng(900)}
		around.Go(func() { storm.blow(ctx) })
	}
	var teams []*team
	for n := range o.Clients {
		if n%teamSize == 0 {
			t, err := newTeam(w, n/teamSize, rng(800+n))
			if err != nil {
				cancel()
				return err
			}
			teams = append(teams, t)
		}
		t := teams[n/teamSize]
		clients.Go(newClient(t, n, rng(n)).run)
	}
	clients.Wait()
	var failed error
	for _, t := range teams {
		failed = errors.Join(failed, t.close())
	}
	cancel()
	around.Wait()
	if failed != nil {
		return failed
	}
	for _, c := range []*mongo.Client{watched, quiet} {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		if err := c.Disconnect(ctx); err != nil {
			cancel()
			return fmt.Errorf("disconnect: %w", err)
		}
		cancel()
	}
	return w.out.Err()
}

// observe reads one document after the other. The images between the commands
// show, for example, a renewal's expiry.
func (w *worker) observe(ctx context.Context) {
	projection := bson.M{"lock": 1, "__doclockNow": "$$NOW"}
	for i := 0; sleep(ctx, 25*time.Millisecond); i++ {
		c := history.Command{
			Process: w.Process, Number: w.recorder.Number(), Kind: history.CommandRead,
			Document: w.Documents[i%len(w.Documents)].ID, Sent: w.clock.Now(),
		}
		raw, err := w.quiet.FindOne(ctx, bson.M{"_id": c.Document}, options.FindOne().SetProjection(projection)).Raw()
		if err != nil {
			continue // a missing document, or the end
		}
		c.Answered, c.Matched, c.Image = w.clock.Now(), true, history.ReadImage(raw)
		w.out.Command(c)
	}
}
