//go:build unix

package mongotest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// startLimit is the longest time until a server answers.
const startLimit = 60 * time.Second

// mongod is a mongod of PATH, as a replica set of one member. It was written
// without access to a mongod, and tested only with a stand-in; see
// standin_test.go.
type mongod struct {
	crew
	path string
	port int
	run  *run
}

func mongodWay(program string) way {
	return way{
		name: "mongod",
		prepare: func(context.Context, cache, *progress) error {
			if _, err := exec.LookPath(program); err != nil {
				return unavailable("not on PATH")
			}
			return nil
		},
		start: func(ctx context.Context, c cache) (server, error) { return startMongod(ctx, program, c) },
	}
}

func startMongod(ctx context.Context, program string, c cache) (server, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, fmt.Errorf("finding mongod: %w", err)
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	run, err := newRun(c.path("runs"))
	if err != nil {
		return nil, err
	}
	m := &mongod{path: path, port: port, run: run}
	if err := os.Mkdir(run.path("data"), 0o700); err != nil {
		return nil, errors.Join(fmt.Errorf("making a data directory: %w", err), m.remove())
	}
	if err := m.launch(ctx); err != nil {
		return nil, errors.Join(err, m.remove())
	}
	return m, nil
}

func (m *mongod) launch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	args := append(mongodArgs(m.setName(), m.port), "--bind_ip=127.0.0.1", "--nounixsocket", "--dbpath="+m.run.path("data"))
	p, err := startProcess(exec.Command(m.path, args...), m.run.path("mongod.log"))
	if err != nil {
		return err
	}
	m.crew = crew{p}
	// Its own log shows that it got the port, and not another server.
	if err := p.says(ctx, "Waiting for connections"); err != nil {
		return fmt.Errorf("%s: %w", m.path, err)
	}
	if err := initiate(ctx, m.setName(), m.port); err != nil {
		return fmt.Errorf("%w\n%s", err, tail(p.log))
	}
	return nil
}

// mongodArgs are the arguments of a mongod, here and in a container: a small
// cache, and fail points for tests that use them.
func mongodArgs(set string, port int) []string {
	return []string{
		"--replSet=" + set, "--port=" + strconv.Itoa(port), "--wiredTigerCacheSizeGB=0.5", "--oplogSize=256",
		"--setParameter=enableTestCommands=1", "--setParameter=diagnosticDataCollectionEnabled=false",
	}
}

// initiate makes a mongod a replica set of one member, unless it is one
// already, and waits until it is the primary.
func initiate(ctx context.Context, set string, port int) error {
	address := fmt.Sprintf("127.0.0.1:%d", port)
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://" + address + "/?directConnection=true"))
	if err != nil {
		return fmt.Errorf("connecting to mongod: %w", err)
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()

	admin := client.Database("admin")
	err = admin.RunCommand(ctx, bson.D{{Key: "replSetInitiate", Value: bson.D{
		{Key: "_id", Value: set},
		{Key: "members", Value: bson.A{bson.D{{Key: "_id", Value: 0}, {Key: "host", Value: address}}}},
	}}}).Err()
	const alreadyInitialized = 23
	if failure := (mongo.CommandError{}); err != nil && (!errors.As(err, &failure) || failure.Code != alreadyInitialized) {
		return fmt.Errorf("making mongod a replica set: %w", err)
	}
	for {
		var hello struct {
			SetName string `bson:"setName"`
			Primary bool   `bson:"ismaster"`
		}
		err := admin.RunCommand(ctx, bson.D{{Key: "isMaster", Value: 1}}).Decode(&hello) // MongoDB 4.4.0 has no hello
		if err == nil && hello.Primary && hello.SetName == set {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("mongod did not become the primary of %s: %w", set, errors.Join(context.Cause(ctx), err))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (m *mongod) setName() string { return filepath.Base(m.run.dir) }
func (m *mongod) uri() string     { return replicaSetURI(m.setName(), m.port) }
func (m *mongod) origin() string  { return m.path + ", on PATH" }
func (m *mongod) remove() error   { return errors.Join(m.kill(), m.run.remove()) }

func replicaSetURI(set string, port int) string {
	return fmt.Sprintf("mongodb://127.0.0.1:%d/?replicaSet=%s", port, set)
}
