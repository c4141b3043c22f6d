package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/doclock/doclock/internal/mongotest"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

// servers are all servers of the run. A child process gets them from its
// parent, as JSON.
type servers struct {
	MongoURI string
	Database string
	Network  *network // between the clients and every server; nil for none
	Redis    string   // address; empty if it is missing
	Etcd     string

	Mongo   string            // what server it is
	Absent  map[string]string // server: the reason why it is missing
	Version map[string]string // server: its kind, and its guarantees here
}

// start starts the available servers. Only the MongoDB server is required. The
// returned function stops everything, and is never nil.
func (s *servers) start(ctx context.Context, say func(string, ...any)) (stop func() error, err error) {
	var stops []func() error
	stop = func() error {
		var errs []error
		for _, f := range stops {
			errs = append(errs, f())
		}
		return errors.Join(errs...)
	}
	shared, err := mongotest.Start(ctx, os.Stderr)
	if err != nil {
		return stop, err
	}
	stops = append(stops, shared.Close)
	s.MongoURI, s.Mongo = shared.URI(), shared.Description()
	s.Database = "bench_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	stops = append([]func() error{s.drop}, stops...)
	say("MongoDB: %s", s.Mongo)

	s.Absent, s.Version = map[string]string{}, map[string]string{}
	for _, d := range []struct {
		name    string
		address *string
		start   func(context.Context, func(string, ...any)) (*daemon, error)
	}{{"redis", &s.Redis, startRedis}, {"etcd", &s.Etcd, startEtcd}} {
		running, err := d.start(ctx, say)
		if err != nil {
			s.Absent[d.name] = err.Error()
			say("%s: ABSENT, its rivals are not measured: %v", d.name, err)
			continue
		}
		stops = append(stops, running.stop)
		*d.address, s.Version[d.name] = running.address, running.about
		say("%s: %s", d.name, running.about)
	}
	return stop, nil
}

// drop removes the run's database.
func (s *servers) drop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	client, err := s.connect(&counter{})
	if err != nil {
		return err
	}
	defer func() { _ = client.Disconnect(ctx) }()
	return client.Database(s.Database).Drop(ctx)
}

// connect makes a client whose commands are counted. All subjects have the same
// driver and the same write concern.
func (s *servers) connect(c *counter, more ...*options.ClientOptions) (*mongo.Client, error) {
	common := options.Client().ApplyURI(s.MongoURI).SetMonitor(c.mongo()).SetWriteConcern(writeconcern.Majority())
	if s.Network != nil {
		common.SetDialer(s.Network)
	}
	return mongo.Connect(append([]*options.ClientOptions{common}, more...)...)
}

// document makes a case's document, of about this many bytes.
func (s *servers) document(ctx context.Context, key string, bytes int) error {
	client, err := s.connect(&counter{})
	if err != nil {
		return err
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	docs := client.Database(s.Database).Collection(documents)
	_, err = docs.ReplaceOne(ctx, bson.M{"_id": key}, blank(key, bytes), options.Replace().SetUpsert(true))
	return err
}

func blank(key string, bytes int) bson.M {
	return bson.M{"_id": key, "count": 0, "version": 0, "text": strings.Repeat("x", bytes)}
}

// documents is the collection that the subjects lock and write in. Most
// applications have documents of small bytes.
const (
	documents = "documents"
	small     = 1000
)

// count reads the number of increments of a document.
func (s *servers) count(ctx context.Context, key string) (int, error) {
	client, err := s.connect(&counter{})
	if err != nil {
		return 0, err
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	var doc struct{ Count int }
	err = client.Database(s.Database).Collection(documents).FindOne(ctx, bson.M{"_id": key}).Decode(&doc)
	return doc.Count, err
}

// freePort is an unused port.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// listening waits until a server accepts connections.
func listening(ctx context.Context, d *daemon) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", d.address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-d.ended:
			return fmt.Errorf("it ended at once: %s", d.said())
		case <-ctx.Done():
			return fmt.Errorf("it does not listen on %s: %w", d.address, err)
		}
	}
}
