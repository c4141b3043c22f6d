package mongotest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/doclock/doclock/locktest"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Server is a program's server.
type Server struct {
	uri, description string
	memory           *locktest.Server // nil of a real one
}

// Open finds the server at uri, or starts one in memory, with these options, if uri is "".
func Open(ctx context.Context, uri string, opts ...locktest.Option) (*Server, error) {
	if uri != "" {
		what, err := describe(ctx, uri)
		return &Server{uri: uri, description: what}, err
	}
	memory := locktest.Start(opts...)
	uri, err := memory.Listen("127.0.0.1:0")
	if err != nil {
		memory.Close()
		return nil, err
	}
	return &Server{uri, inMemory + ", in this process: shows behaviour, proves nothing about MongoDB", memory}, nil
}

// inMemory begins the description of a server in memory.
const inMemory = "locktest"

// URI is the server's connection string.
func (s *Server) URI() string { return s.uri }

// Description is the server's kind, version, topology and host, in one line, without a password.
func (s *Server) Description() string { return s.description }

// LimitTransactions has a server in memory abort transactions that are open for longer. Another one has a limit of its own.
func (s *Server) LimitTransactions(lifetime time.Duration) {
	if s.memory != nil {
		s.memory.LimitTransactions(lifetime)
	}
}

// Close ends a server in memory.
func (s *Server) Close() {
	if s.memory != nil {
		s.memory.Close()
	}
}

// describe asks a server for its kind, and waits for 10 s until a primary answers.
func describe(ctx context.Context, uri string) (what string, err error) {
	const limit = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	opts := options.Client().ApplyURI(uri)
	if opts.ServerSelectionTimeout == nil {
		opts.SetServerSelectionTimeout(limit)
	}
	client, err := mongo.Connect(opts)
	if err != nil {
		return "", errUnusable
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()

	topology, err := topologyOf(ctx, client)
	if err != nil {
		return "", err
	}
	var build struct {
		Version  string `bson:"version"`
		FerretDB struct {
			Version string `bson:"version"`
		} `bson:"ferretdb"`
	}
	if err := client.Database("admin").RunCommand(ctx, bson.D{{Key: "buildInfo", Value: 1}}).Decode(&build); err != nil {
		return "", fmt.Errorf("the server does not say its version: %w", err)
	}
	what = "MongoDB " + build.Version
	switch {
	case strings.HasSuffix(build.Version, inMemory):
		what = inMemory
	case build.FerretDB.Version != "":
		what = fmt.Sprintf("FerretDB %s (answers as MongoDB %s)", build.FerretDB.Version, build.Version)
	}
	return fmt.Sprintf("%s, %s, at %s", what, topology, opts.Hosts[0]), nil
}

const standalone = "standalone"

// topologyOf asks a server for its topology, in words.
func topologyOf(ctx context.Context, client *mongo.Client) (string, error) {
	var hello struct {
		SetName string `bson:"setName"`
		Msg     string `bson:"msg"`
	}
	if err := client.Database("admin").RunCommand(ctx, bson.D{{Key: "isMaster", Value: 1}}).Decode(&hello); err != nil {
		return "", fmt.Errorf("the server does not answer: %w", err)
	}
	switch {
	case hello.SetName != "":
		return "replica set " + hello.SetName, nil
	case hello.Msg == "isdbgrid":
		return "sharded", nil
	default:
		return standalone, nil
	}
}

// errUnusable has nothing of the URI, nor of the driver's error: a password may be anywhere in them.
var errUnusable = errors.New("the server's URI can't be used; it is like mongodb://USER:PASSWORD@HOST:PORT/, with special characters escaped")
