package doclock_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// What a lease prints is for people: in a format, in a log, held or over.
func TestLeaseIsReadable(t *testing.T) {
	r := newRig(t, doclock.TTL(30*time.Second))
	lease := r.acquire()
	held := fmt.Sprintf(`lease "write" on document 1, fence %d, 29.999s left`, lease.Fence())
	for _, format := range []string{"%v", "%+v", "%s"} {
		if got := fmt.Sprintf(format, lease); got != held {
			t.Errorf("%s: %s, want %s", format, got, held)
		}
	}
	logged := func() string {
		var out bytes.Buffer
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "lease", lease)
		return out.String()
	}
	if got, want := logged(), fmt.Sprintf("lease.document=1 lease.tag=write lease.fence=%d lease.left=29.999s\n", lease.Fence()); !strings.HasSuffix(got, want) {
		t.Errorf("logged %q, want it to end with %q", got, want)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(lease), ", released"; !strings.HasSuffix(got, want) {
		t.Errorf("%q doesn't end with %q", got, want)
	}
	if got, want := logged(), `lease.over=released`; !strings.Contains(got, want) {
		t.Errorf("logged %q, want %q in it", got, want)
	}
}

func TestIDIsTheFilterOfOneDocument(t *testing.T) {
	if diff := cmp.Diff(bson.D{{Key: "_id", Value: "invoices"}}, doclock.ID("invoices")); diff != "" {
		t.Error(diff)
	}
}
