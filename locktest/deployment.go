package locktest

import (
	"bytes"
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/address"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/description"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/mnet"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"

	"github.com/doclock/doclock/internal/wire"
	"github.com/doclock/doclock/locktest/internal/store"
	"github.com/doclock/doclock/locktest/internal/value"
)

// This file is the seam to the driver: a client encodes each command for the wire,
// and gets the reply from the same goroutine.

// here is the server's address, in the driver's errors.
const here address.Address = "locktest"

// selectionTimeout is the driver's own default.
const selectionTimeout = 30 * time.Second

// deployment is a [Server] as the driver sees it for one client.
type deployment struct {
	*Server
	patience time.Duration // with a server that can't be reached
	client   *mongo.Client

	// These need the server's mutex.
	disconnected bool
	cut          error // why this client reaches no server; nil if it can
}

var (
	_ driver.Deployment   = (*deployment)(nil)
	_ driver.Server       = (*deployment)(nil)
	_ driver.Disconnector = (*deployment)(nil)
)

func (d *deployment) Kind() description.TopologyKind { return description.TopologyKindSingle }

func (d *deployment) GetServerSelectionTimeout() time.Duration { return d.patience }

// Disconnect ends the client, as it does with any server. It says so if that was
// done before.
func (d *deployment) Disconnect(context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.disconnected {
		return topology.ErrTopologyClosed
	}
	d.disconnected = true
	delete(d.clients, d.client)
	d.turn()
	return nil
}

// SelectServer waits until the server can be reached.
func (d *deployment) SelectServer(ctx context.Context, _ description.ServerSelector) (driver.Server, error) {
	for {
		d.mu.Lock()
		down := d.down
		if d.cut != nil {
			down = d.cut
		}
		switch {
		case d.disconnected:
			d.mu.Unlock()
			return nil, topology.ErrTopologyClosed
		case down == nil:
			d.mu.Unlock()
			return d, nil
		}
		if err := d.pause(ctx, time.Hour); err != nil {
			return nil, topology.ServerSelectionError{Wrapped: err, Desc: description.Topology{
				Kind:    description.TopologyKindSingle,
				Servers: []description.Server{{Addr: here, LastError: down}},
			}}
		}
	}
}

func (d *deployment) Connection(context.Context) (*mnet.Connection, error) {
	return mnet.NewConnection(&connection{of: d}), nil
}

func (d *deployment) RTTMonitor() driver.RTTMonitor { return noTime{} }

// noTime is how long a round trip takes.
type noTime struct{}

func (noTime) EWMA() time.Duration { return 0 }
func (noTime) Min() time.Duration  { return 0 }
func (noTime) Stats() string       { return "" }

// connection carries one command at a time. The driver writes it, and then reads
// the reply.
type connection struct {
	of      *deployment
	request wire.Message
	reply   bson.RawValue
	err     error
}

// Write executes a command.
func (c *connection) Write(ctx context.Context, message []byte) error {
	c.request = bytes.Clone(message) // the driver uses its buffer again
	command, err := parse(c.request)
	if err != nil {
		return err
	}
	c.reply, c.err = c.of.execute(ctx, command)
	return nil
}

// Read is the reply to it.
func (c *connection) Read(context.Context) ([]byte, error) {
	if c.err != nil {
		return nil, topology.ConnectionError{ConnectionID: c.ID(), Wrapped: c.err}
	}
	return c.request.Reply(bson.Raw(c.reply.Value))
}

func (c *connection) Close() error { return nil }

// parse reads a command: a document, and lists of documents beside it.
func parse(message wire.Message) (value.Document, error) {
	body, sequences, ok := message.Parts()
	command := value.Open(value.Doc(body))
	if !ok || len(command) == 0 {
		return nil, errors.New("locktest: a malformed message")
	}
	for _, s := range sequences {
		list := make([]bson.RawValue, len(s.Documents))
		for i, document := range s.Documents {
			list[i] = value.Doc(document)
		}
		command = append(command, value.Field{Key: s.Name, Value: value.Array(list)})
	}
	return command, nil
}

// The driver describes a connection by these.

func (c *connection) Description() description.Server {
	return description.Server{
		Addr: here, Kind: description.ServerKindStandalone,
		MaxBatchCount: 100_000, MaxDocumentSize: 16 << 20, MaxMessageSize: 48_000_000,
		WireVersion: &description.VersionRange{Max: store.WireVersion},
	}
}

func (c *connection) ID() string                 { return string(here) }
func (c *connection) ServerConnectionID() *int64 { return nil }
func (c *connection) DriverConnectionID() int64  { return 0 }
func (c *connection) Address() address.Address   { return here }
func (c *connection) Stale() bool                { return false }
func (c *connection) OIDCTokenGenID() uint64     { return 0 }
func (c *connection) SetOIDCTokenGenID(uint64)   {}
