package doclock_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/locktest"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// more than a check sends of any command
const mostProbes = 40

// rewrites changes every answer to a command.
func (r *rig) rewrites(command string, change func(n int, reply bson.M)) {
	for n := range mostProbes {
		r.net.ArmRewrite(faultnet.Rewrite, command, func(reply bson.Raw) any {
			var m bson.M
			_ = bson.Unmarshal(reply, &m)
			change(n, m)
			return m
		})
	}
	r.Cleanup(r.net.Disarm)
}

// refuses answers a command with an error in the server's place.
func (r *rig) refuses(command string, code int, text string) {
	for range mostProbes {
		r.net.ArmRewrite(faultnet.Refuse, command, func(bson.Raw) any { return bson.M{"ok": 0, "code": code, "errmsg": text} })
	}
	r.Cleanup(r.net.Disarm)
}

func TestCheckServer(t *testing.T) {
	r := newRig(t)
	info, err := doclock.CheckServer(t.Context(), r.doc)
	if err != nil {
		t.Error(err)
	}
	if info.Kind == "" || !strings.ContainsAny(info.Version, "0123456789") || info.NeedsShardKey {
		t.Errorf("it is %+v", info)
	}
	if info, err := doclock.CheckServer(t.Context(), nil); !errors.Is(err, doclock.ErrInvalidArgument) || info != (doclock.ServerInfo{}) {
		t.Errorf("CheckServer of nil = %v, %v", info, err)
	}
	if n, err := r.other.CountDocuments(t.Context(), bson.M{}); err != nil || n != 1 {
		t.Errorf("%d documents, %v: a check writes nothing", n, err)
	}
}

// A member says for how long a transaction may be open; a router and a single server don't.
func TestCheckServerFindsTheLimitOfTransactions(t *testing.T) {
	for kind, opts := range map[doclock.ServerKind][]locktest.Option{
		doclock.Standalone: nil, doclock.ReplicaSet: {locktest.ReplicaSet()}, doclock.Sharded: {locktest.Sharded()},
	} {
		mem := locktest.New(t, opts...)
		mem.LimitTransactions(90 * time.Second)
		info, err := doclock.CheckServer(t.Context(), mem.Collection("documents"))
		want := time.Duration(0)
		if kind == doclock.ReplicaSet {
			want = 90 * time.Second
		}
		if err != nil || info.Kind != kind || info.TransactionLimit != want {
			t.Errorf("%s: %+v, %v", kind, info, err)
		}
	}
}

func TestCheckServerFindsTheUnsupported(t *testing.T) {
	for name, spoil := range map[string]func(r *rig){
		"old wire version": func(r *rig) { r.rewrites("hello", func(_ int, m bson.M) { m["maxWireVersion"] = 8 }) },
		"FerretDB 1": func(r *rig) {
			r.rewrites("buildInfo", func(_ int, m bson.M) { m["ferretdb"] = bson.M{"version": "v1.24.0"} })
		},
		"refuses the pipeline": func(r *rig) { r.refuses("findAndModify", 17276, "Use of undefined variable: NOW") },
		"no majority reads": func(r *rig) {
			r.refuses("find", 148, "Majority read concern requested, but it is not supported by the storage engine.")
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			spoil(r)
			if _, err := doclock.CheckServer(t.Context(), r.doc); !errors.Is(err, doclock.ErrUnsupportedServer) {
				t.Errorf("CheckServer = %v", err)
			}
		})
	}
}

// A user who lacks a right hears of that, and not of another server.
func TestCheckServerWithoutRights(t *testing.T) {
	r := newRig(t)
	r.refuses("findAndModify", 13, "not authorized on test to execute command")
	_, err := doclock.CheckServer(t.Context(), r.doc)
	if refused := (mongo.CommandError{}); !errors.As(err, &refused) || refused.Code != 13 || errors.Is(err, doclock.ErrUnsupportedServer) {
		t.Errorf("CheckServer = %v", err)
	}
}

// MongoDB 4.4.0 has no hello.
func TestCheckServerWithoutHello(t *testing.T) {
	r := newRig(t)
	r.refuses("hello", 59, "no such command: 'hello'")
	if info, err := doclock.CheckServer(t.Context(), r.doc); err != nil || info.Kind == "" {
		t.Errorf("CheckServer = %+v, %v", info, err)
	}
}

// A router that wants the shard key in the filter of an acquire knows the
// command.
func TestCheckServerOfAShardedCollection(t *testing.T) {
	r := newRig(t)
	r.refuses("findAndModify", 61, "Query for sharded findAndModify must contain the shard key")
	if info, err := doclock.CheckServer(t.Context(), r.doc); err != nil || !info.NeedsShardKey {
		t.Errorf("CheckServer = %+v, %v", info, err)
	}
}

// Two routers, or two members, with two clocks.
func TestCheckServerComparesTheClocks(t *testing.T) {
	for kind, mark := range map[doclock.ServerKind]bson.M{
		doclock.Sharded:    {"msg": "isdbgrid"},
		doclock.ReplicaSet: {"setName": "rs", "msg": ""},
	} {
		for _, apart := range []time.Duration{time.Hour, -time.Hour} {
			t.Run(fmt.Sprint(kind, apart), func(t *testing.T) {
				r := newRig(t)
				routers := [2]bson.ObjectID{bson.NewObjectID(), bson.NewObjectID()}
				r.rewrites("hello", func(n int, m bson.M) {
					for k, v := range mark {
						m[k] = v
					}
					m["topologyVersion"] = bson.M{"processId": routers[n%2], "counter": int64(0)}
					m["localTime"] = time.Now().Add(time.Duration(n%2) * apart)
				})
				info, err := doclock.CheckServer(t.Context(), r.doc)
				if err != nil || info.Kind != kind {
					t.Fatalf("CheckServer = %+v, %v", info, err)
				}
				if wrong := info.ClockSkew - time.Hour; wrong.Abs() > time.Minute { // a reply may take its time
					t.Errorf("the clocks differ by %v", info.ClockSkew)
				}
			})
		}
	}
}
