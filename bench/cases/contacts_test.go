package cases

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock/bench/servers"
	"github.com/doclock/doclock/bench/subjects"
	"github.com/doclock/doclock/locktest"
)

var full = flag.Bool("full", false, "make the whole table of TestContacts, in a minute")

// Adders of one category, with 5 ms of network and a server that takes no time, because it is in virtual time. With -full
// they have the figures of docs/proof.md. Adders under a read lock let each other commit, as bare transactions don't.
func TestContacts(t *testing.T) {
	crowds := []int{8}
	if *full {
		crowds = adders
	}
	synctest.Test(t, func(t *testing.T) {
		mem := locktest.New(t, locktest.ReplicaSet())
		s := servers.Servers{MongoURI: mem.URI(), Database: "bench", Dialer: mem, Delay: 5 * time.Millisecond}
		chosen, err := Choose("contacts")
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range crowds {
			rate := map[string]float64{}
			for _, name := range chosen[0].subjects {
				round, err := measure(t.Context(), &s, name, n)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				commands := over(float64(round.Commands), float64(len(round.Latencies)))
				rate[name] = round.perSecond()
				t.Logf("%2d adders  %-28s %5.2f commands  %6.0f a second", n, name, commands, rate[name])
				most := map[string]float64{"doclock-undo": 3.2, "doclock-transaction": 8.6, "doclock-undo-shared": 1.2, "doclock-transaction-shared": 4.5}[name]
				if n == 8 && most > 0 && commands > most {
					t.Errorf("%s: %.2f commands a contact, want at most %v", name, commands, most)
				}
			}
			if n > 1 && rate["doclock-transaction"] < 2*rate["plain-transaction"] {
				t.Errorf("%d adders: %.0f contacts a second under leases, and %.0f in bare transactions", n, rate["doclock-transaction"], rate["plain-transaction"])
			}
		}
	})
}

func measure(ctx context.Context, s *servers.Servers, name string, adders int) (Round, error) {
	subject, err := subjects.Open(s, name, 10*time.Second)
	if err != nil {
		return Round{}, err
	}
	defer subject.Close()
	if err := subject.MakeContacts(ctx); err != nil {
		return Round{}, err
	}
	if err := warmUp(ctx, subject, adders); err != nil {
		return Round{}, err
	}
	return addContacts(ctx, subject, adders, fmt.Sprint(name, adders), time.Second)
}
