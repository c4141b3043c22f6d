package mongotest_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/locktest"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// A test that waits for ever ends, and names itself. It runs in another process, which that ends.
func TestVirtualEnds(t *testing.T) {
	if os.Getenv("DOCLOCK_TEST_WAITS") != "" {
		mongotest.Virtual(t, func(*testing.T) { select {} })
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "DOCLOCK_TEST_URI=", "DOCLOCK_TEST_WAITS=1")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), t.Name()+" waits for ever") {
		t.Errorf("it ended with %v, and said %s", err, out)
	}
}

// A test and its parts share the server that the test has of its own.
func TestOwn(t *testing.T) {
	t.Parallel()
	shared := mongotest.Client(t)
	t.Run("own", func(t *testing.T) {
		server := mongotest.Own(t, locktest.ReplicaSet())
		t.Run("part", func(t *testing.T) {
			if mongotest.Client(t) != server.Client() || mongotest.Memory(t) != server || !mongotest.HasMembers(t) {
				t.Error("a part has another server")
			}
			coll := mongotest.Client(t, options.Client().SetDialer(faultnet.New())).Database(mongotest.Database(t).Name()).Collection("things")
			if _, err := coll.InsertOne(t.Context(), bson.M{"_id": 1}); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("members", func(t *testing.T) {
		if mongotest.Members(t); !mongotest.HasMembers(t) {
			t.Error("the server has no members")
		}
	})
	if mongotest.Client(t) != shared {
		t.Error("the test has another server afterwards")
	}
}
