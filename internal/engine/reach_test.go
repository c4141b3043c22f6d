package engine

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// nowhere reaches no server.
type nowhere struct{ dials atomic.Int32 }

func (n *nowhere) DialContext(context.Context, string, string) (net.Conn, error) {
	n.dials.Add(1)
	return nil, errors.New("no route to host")
}

// Each look for a server has the driver check its servers, although its heartbeats are
// far apart: after an outage the next look finds the server.
func TestALookHasTheServersChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := &nowhere{}
		client, err := mongo.Connect(options.Client().SetHosts([]string{"nowhere:27017"}).SetDialer(network).SetHeartbeatInterval(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = client.Disconnect(context.Background()) }()
		e, err := New(client.Database("test").Collection("orders"), relations.Exclusive(), Config{Terms: Terms{TTL: DefaultTTL}, Field: DefaultField})
		if err != nil {
			t.Fatal(err)
		}
		wait := func() { time.Sleep(2 * time.Second) } //nolint:forbidigo // in a bubble; the driver checks twice a second at most
		missed := 0
		for range 20 {
			wait() // for what an earlier look has begun
			before := network.dials.Load()
			if e.Unreachable() == nil {
				t.Fatal("a server was found")
			}
			wait()
			if network.dials.Load() == before {
				missed++
			}
		}
		if missed > 2 { // one in a thousand by chance; of looks that ask once, one in two
			t.Errorf("%d of 20 looks were no check", missed)
		}
	})
}
