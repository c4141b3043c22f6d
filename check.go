package doclock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/oneline"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
)

// leastWireVersion is MongoDB 4.4's: computed fields in the projection of a
// findAndModify.
const leastWireVersion = 9

// ServerInfo is what [CheckServer] found.
type ServerInfo struct {
	Kind    ServerKind
	Version string // "MongoDB 7.0.5", "FerretDB v2.7.0"

	// ClockSkew is the greatest difference between the clocks of the servers that
	// answered, routers or members, to about a round trip. The [ClockTolerance] must be
	// greater.
	ClockSkew time.Duration

	// NeedsShardKey: the collection is sharded by other fields than _id, as only a router
	// before 7.0 says. A filter needs an equality on each, and the Locker the option [ShardKey].
	NeedsShardKey bool

	// TransactionLimit is for how long a transaction may be open, before the server aborts
	// it ([Lease.WithTransaction]); up to half as long again may pass. 0: a standalone
	// server has none, and a router, or one whose user may not ask, doesn't say.
	TransactionLimit time.Duration
}

// ServerKind says how servers make up one database.
type ServerKind string

// The kinds of servers.
const (
	Standalone ServerKind = "standalone"
	ReplicaSet ServerKind = "replica set"
	Sharded    ServerKind = "sharded cluster"
)

// CheckServer asks whether the collection's server can run the protocol, and what it
// is. The error is nil, an [ErrUnsupportedServer] with the reason, or the driver's. It
// writes nothing, and ends after 30 s without an answer. MongoDB from 4.4 on is
// supported, and FerretDB 2 with DocumentDB. A Locker needs no check: on another server
// its acquires return the server's error.
//
// In a sharded cluster the time in the lock is that of the router that handled the
// command. CheckServer doesn't measure servers that this client doesn't know, or would
// not choose because they are too far away ([options.ClientOptions.SetLocalThreshold]).
func CheckServer(ctx context.Context, coll *mongo.Collection) (ServerInfo, error) {
	if coll == nil {
		return ServerInfo{}, fmt.Errorf("%w: the collection is nil", ErrInvalidArgument)
	}
	if engine.InTransaction(ctx) {
		return ServerInfo{}, fmt.Errorf("%w: call CheckServer outside", ErrInTransaction)
	}
	ctx, cancel := context.WithTimeout(ctx, engine.DefaultRetryLimit)
	defer cancel()
	answer, err := askHello(ctx, coll.Database())
	if err != nil {
		return ServerInfo{}, oneline.Because(errors.New("doclock: ask the server"), err)
	}
	info := ServerInfo{Kind: answer.kind()}
	if answer.MaxWireVersion < leastWireVersion {
		return info, fmt.Errorf("%w: its wire version is %d; MongoDB 4.4 has %d", ErrUnsupportedServer, answer.MaxWireVersion, leastWireVersion)
	}
	if info.Version, err = version(ctx, coll.Database()); err != nil {
		return info, err
	}
	if info.ClockSkew, err = clockSkew(ctx, coll.Database()); err != nil {
		return info, err
	}
	if info.Kind != Standalone {
		info.TransactionLimit = transactionLimit(ctx, coll.Database().Client())
	}
	var command string
	if info.NeedsShardKey, command, err = engine.Probe(ctx, coll); err != nil {
		return info, refusal(command, err)
	}
	return info, nil
}

// helloAnswer is what every server says of itself.
type helloAnswer struct {
	MaxWireVersion  int       `bson:"maxWireVersion"`
	Msg             string    `bson:"msg"`
	SetName         string    `bson:"setName"`
	Me              string    `bson:"me"`
	LocalTime       time.Time `bson:"localTime"`
	TopologyVersion struct {
		ProcessID bson.ObjectID `bson:"processId"`
	} `bson:"topologyVersion"`
}

// askHello asks the primary, or with Nearest any server. MongoDB 4.4.0 knows
// the command under its old name alone.
func askHello(ctx context.Context, db *mongo.Database, opts ...options.Lister[options.RunCmdOptions]) (answer helloAnswer, err error) {
	const commandNotFound = 59
	err = db.RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}, opts...).Decode(&answer)
	var refused mongo.CommandError
	if errors.As(err, &refused) && refused.HasErrorCode(commandNotFound) {
		err = db.RunCommand(ctx, bson.D{{Key: "isMaster", Value: 1}}, opts...).Decode(&answer)
	}
	return answer, err
}

func (a helloAnswer) kind() ServerKind {
	switch {
	case a.Msg == "isdbgrid":
		return Sharded
	case a.SetName != "":
		return ReplicaSet
	default:
		return Standalone
	}
}

// server identifies the server that answered, as far as the answer names it.
func (a helloAnswer) server() string { return a.TopologyVersion.ProcessID.Hex() + a.Me }

// clockSkew is the greatest difference between the servers' clocks. The driver chooses
// a server at random for each reading, so a few readings meet all. Of each server the
// quickest answer counts: its time is the middle between send and answer, or half a
// round trip from it.
func clockSkew(ctx context.Context, db *mongo.Database) (most time.Duration, err error) {
	const readings = 16
	type clock struct{ took, ahead time.Duration }
	clocks := map[string]clock{}
	begun := time.Now()
	for range readings {
		sent := time.Since(begun)
		answer, err := askHello(ctx, db, options.RunCmd().SetReadPreference(readpref.Nearest()))
		if err != nil {
			return 0, oneline.Because(errors.New("doclock: read the servers' clocks"), err)
		}
		answered := time.Since(begun)
		server := answer.server()
		const century = 100 * 365 * 24 * time.Hour // so that differences don't overflow
		ahead := min(max(answer.LocalTime.Sub(begun)-(sent+answered)/2, -century), century)
		read := clock{took: answered - sent, ahead: ahead}
		if best, known := clocks[server]; !known || read.took < best.took {
			clocks[server] = read
		}
	}
	for _, a := range clocks {
		for _, b := range clocks {
			most = max(most, a.ahead-b.ahead)
		}
	}
	return most, nil
}

// transactionLimit is the member's, if it says so.
func transactionLimit(ctx context.Context, client *mongo.Client) time.Duration {
	const name = "transactionLifetimeLimitSeconds"
	answer, err := client.Database("admin").RunCommand(ctx, bson.D{{Key: "getParameter", Value: 1}, {Key: name, Value: 1}}).Raw()
	seconds, said := answer.Lookup(name).AsInt64OK()
	if err != nil || !said {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// version is what the server says of itself. FerretDB 1 claims to be a MongoDB
// that is supported.
func version(ctx context.Context, db *mongo.Database) (string, error) {
	var build struct {
		Version  string `bson:"version"`
		FerretDB struct {
			Version string `bson:"version"`
		} `bson:"ferretdb"`
	}
	if err := db.RunCommand(ctx, bson.D{{Key: "buildInfo", Value: 1}}).Decode(&build); err != nil {
		return "", nil //nolint:nilerr // a server may keep its version to itself
	}
	ferret := build.FerretDB.Version
	switch {
	case ferret == "":
		return "MongoDB " + build.Version, nil
	case strings.HasPrefix(strings.TrimPrefix(ferret, "v"), "1."):
		return "FerretDB " + ferret, fmt.Errorf("%w: FerretDB %q has no pipeline updates, and its updates are not atomic; use FerretDB 2", ErrUnsupportedServer, ferret)
	default:
		return "FerretDB " + ferret, nil
	}
}

func refusal(what string, err error) error {
	if f := engine.AsFailure(err); f.Refused() && f.Cause != engine.CauseUnauthorized {
		return oneline.Because(fmt.Errorf("%w: it refuses %s", ErrUnsupportedServer, what), err)
	}
	return oneline.Because(fmt.Errorf("doclock: probe the server with %s", what), err)
}
