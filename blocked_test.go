package doclock_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/doclock/doclock"
)

// naming matches the writes that name one of the documents from 100 on.
func naming(documents int) func(string, []byte) bool {
	ids := make([][]byte, documents)
	for i := range ids {
		ids[i] = binary.LittleEndian.AppendUint32([]byte("\x10_id\x00"), uint32(100+i))
	}
	return func(command string, message []byte) bool {
		if command != "update" && command != "findAndModify" {
			return false
		}
		for _, id := range ids {
			if bytes.Contains(message, id) {
				return true
			}
		}
		return false
	}
}

// Somebody keeps documents back from all writes. The renewals that wait for
// them hold up no others: these are renewed before the first of them is given
// up.
func TestBlockedDocumentsHoldUpNoOthers(t *testing.T) {
	for _, blocked := range []int{4, 16, 64} {
		t.Run(fmt.Sprint(blocked), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, doclock.TTL(12*time.Second), doclock.AttemptTimeout(time.Minute))
			leases := r.many(100, func(int) {})
			r.net.Block(naming(blocked))
			for _, l := range leases {
				l.KeepAlive(r.Context())
			}
			r.clock.pass(4 * time.Second) // half of what is left has the batch
			until(t, "the first by itself, after a pause", func() bool {
				r.clock.pass(time.Millisecond)
				return slices.Contains(r.sent.all(), "findAndModify")
			})
			renewed := func(leases []*doclock.Lease) func() bool {
				return func() bool {
					for _, l := range leases {
						if l.Remaining() <= 8*time.Second {
							return false
						}
					}
					return true
				}
			}
			until(t, "the others", renewed(leases[blocked:]))
			if n := r.sent.count(); n > 2+len(leases) { // who is given up is sent again
				t.Errorf("a batch, a read and %d leases by themselves took %d commands", len(leases), n)
			}
			r.net.Block(nil)
			r.net.Reset()
			until(t, "those that were blocked", func() bool {
				r.clock.pass(time.Millisecond) // a pause may be under way
				return renewed(leases)()
			})
		})
	}
}

// Leases that can't be renewed even by themselves are tried again after all
// the others, and leave them room.
func TestTheStuckLeaveRoom(t *testing.T) {
	const blocked, most = 30, 16
	r := newRig(t, doclock.TTL(6*time.Second), doclock.AttemptTimeout(300*time.Millisecond))
	leases := r.many(blocked+5, func(int) {})
	others := leases[blocked:]
	renewed := func() bool {
		r.clock.pass(time.Millisecond) // a pause may be under way
		return !slices.ContainsFunc(others, func(l *doclock.Lease) bool { return l.Remaining() <= 4*time.Second })
	}
	r.net.Block(naming(blocked))
	for _, l := range leases {
		l.KeepAlive(r.Context())
	}
	r.clock.pass(2 * time.Second)
	until(t, "each by itself", func() bool {
		r.clock.pass(time.Millisecond)
		return r.sent.count() >= 2+len(leases)
	})
	until(t, "the others", renewed)
	until(t, "the blocked ones to be given up", func() bool { return running(").carryOut(") == 0 })
	r.sent.forget()
	r.clock.pass(2 * time.Second) // they are all due
	until(t, "the others again", renewed)
	until(t, "the blocked ones again", func() bool {
		if n := running(").carryOut("); n > most+1 {
			t.Fatalf("%d renewals are out that can't be done, want at most %d", n-1, most)
		}
		return r.sent.count() >= 1+blocked
	})
	if sent := r.sent.all(); slices.Index(sent, "update") > 3 { // four at a time
		t.Errorf("the others were not the first: %v", sent)
	}
}
