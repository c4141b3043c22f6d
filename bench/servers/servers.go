// Package servers starts the servers of a benchmark, connects clients to them, and counts what clients send.
package servers

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

// Servers are all servers of the run. A child process gets them from its
// parent, as JSON.
type Servers struct {
	MongoURI string
	Database string
	Delay    time.Duration         // of each message to MongoDB, of a test
	Dialer   options.ContextDialer `json:"-"` // to a server in memory, if it isn't nil
	Address  map[string]string     // of redis and etcd

	About  map[string]string // server: its kind, and its guarantees here
	Absent map[string]string // server: the reason why it is missing
}

// Transactions are among what is absent where the server has none.
const Transactions = "transactions"

// Start starts the available servers. Only the MongoDB server is required. The
// returned function stops everything, and is never nil.
func (s *Servers) Start(ctx context.Context, say func(string, ...any)) (stop func() error, err error) {
	var stops []func() error
	stop = func() (err error) {
		for _, f := range stops {
			err = errors.Join(err, f())
		}
		return err
	}
	s.MongoURI = os.Getenv("MONGODB_URI")
	if s.MongoURI == "" {
		return stop, errors.New("set MONGODB_URI to a server that may be measured; .ci/ferretdb starts one")
	}
	shared, err := mongotest.Open(ctx, s.MongoURI)
	if err != nil {
		return stop, err
	}
	s.Database = "bench_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	stops = append(stops, s.drop)
	s.Address, s.Absent, s.About = map[string]string{}, map[string]string{}, map[string]string{"mongodb": shared.Description()}
	say("MongoDB: %s", shared.Description())
	if strings.Contains(shared.Description(), ", standalone") {
		s.Absent[Transactions] = "a standalone server has none"
	}
	for name := range daemons {
		address, about, end, err := start(ctx, name)
		if err != nil {
			s.Absent[name], s.About[name] = err.Error(), "ABSENT, its rivals were not measured"
			say("%s: ABSENT, its rivals are not measured: %v", name, err)
			continue
		}
		stops = append(stops, end)
		s.Address[name], s.About[name] = address, about
		say("%s: %s", name, about)
	}
	return stop, nil
}

// drop removes the run's database.
func (s *Servers) drop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	client, err := s.Connect(&Counter{})
	if err != nil {
		return err
	}
	defer func() { _ = client.Disconnect(ctx) }()
	return client.Database(s.Database).Drop(ctx)
}

// Connect makes a client whose commands are counted. All subjects have the same
// driver and the same write concern.
func (s *Servers) Connect(c *Counter) (*mongo.Client, error) {
	o := options.Client().ApplyURI(s.MongoURI).SetMonitor(c.mongo()).SetWriteConcern(writeconcern.Majority())
	if s.Delay > 0 || s.Dialer != nil {
		net := faultnet.New()
		if s.Dialer != nil {
			net.Over(s.Dialer)
		}
		net.Delay(s.Delay)
		o.SetDialer(net)
	}
	return mongo.Connect(o)
}
