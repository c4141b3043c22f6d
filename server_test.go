package doclock_test

import (
	"errors"
	"testing"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestCheckServer(t *testing.T) {
	r := newRig(t)
	if err := doclock.CheckServer(t.Context(), r.doc); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		command, field string
		value          any
	}{
		"old wire version": {"hello", "maxWireVersion", 8},
		"FerretDB 1":       {"buildInfo", "ferretdb", bson.M{"version": "v1.24.0"}},
	} {
		t.Run(name, func(t *testing.T) {
			r.net.ArmRewrite(faultnet.Rewrite, c.command, func(reply bson.Raw) any {
				var m bson.M
				_ = bson.Unmarshal(reply, &m)
				m[c.field] = c.value
				return m
			})
			t.Cleanup(r.net.Disarm)
			if err := doclock.CheckServer(t.Context(), r.doc); !errors.Is(err, doclock.ErrUnsupportedServer) {
				t.Errorf("CheckServer = %v", err)
			}
		})
	}
	t.Run("refuses the pipeline", func(t *testing.T) {
		r.net.ArmRewrite(faultnet.Refuse, "findAndModify", func(bson.Raw) any {
			return bson.M{"ok": 0, "code": 17276, "errmsg": "Use of undefined variable: NOW"}
		})
		if err := doclock.CheckServer(t.Context(), r.doc); !errors.Is(err, doclock.ErrUnsupportedServer) {
			t.Errorf("CheckServer = %v", err)
		}
	})
	if err := doclock.CheckServer(t.Context(), nil); !errors.Is(err, doclock.ErrInvalidOption) {
		t.Errorf("CheckServer of nil = %v", err)
	}
	if n, err := r.other.CountDocuments(t.Context(), bson.M{}); err != nil || n != 1 {
		t.Errorf("%d documents, %v: a check writes nothing", n, err)
	}
}
