package mongotest

import (
	"context"
	"errors"
	"net"
	"slices"

	"github.com/doclock/doclock/internal/wire"
	"github.com/doclock/doclock/locktest"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// network is a server in memory that a driver reaches by connections. They are pipes, so that in a bubble of
// testing/synctest the driver's own timers pass in virtual time, too.
type network struct{ *locktest.Server }

// over is a dialer of faults. It connects by another one.
type over interface{ Over(options.ContextDialer) }

// DialContext connects to the server.
func (n network) DialContext(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	go n.serve(there)
	return here, nil
}

// serve answers the commands of one connection until its end.
func (n network) serve(conn net.Conn) {
	defer conn.Close()
	for {
		request, err := wire.Read(conn)
		if err != nil {
			return
		}
		command, ok := request.Command()
		if !ok {
			return
		}
		answer, err := n.run(command)
		if err != nil {
			return
		}
		reply, err := request.Reply(answer)
		if err != nil {
			return
		}
		if _, err := conn.Write(reply); err != nil {
			return
		}
	}
}

// run executes a command.
func (n network) run(command bson.D) (answer bson.D, err error) {
	database := "admin"
	command = slices.DeleteFunc(command, func(e bson.E) bool {
		if name, ok := e.Value.(string); ok && e.Key == "$db" {
			database = name
		}
		return slices.Contains([]string{"$db", "lsid", "$readPreference", "$clusterTime"}, e.Key)
	})
	raw, err := n.Client().Database(database).RunCommand(context.Background(), command).Raw()
	var refused mongo.CommandError
	if errors.As(err, &refused) && refused.Raw != nil {
		raw, err = refused.Raw, nil
	}
	if err != nil {
		return nil, err
	}
	return answer, bson.Unmarshal(raw, &answer)
}
