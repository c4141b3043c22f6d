package admin_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/locktest"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// A read looks for a server for as long as its client does: a person waits for it.
func TestAReadLooksForAServerAsLongAsItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := locktest.New()
		client, err := server.Connect(options.Client().SetServerSelectionTimeout(200 * time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		coll, away := client.Database("test").Collection("orders"), errors.New("no route to host")
		server.Down(away)
		for name, read := range map[string]func() error{
			"Inspect": func() error { _, err := admin.Inspect(t.Context(), coll, doclock.ID(1)); return err },
			"Entries": func() error {
				for _, err := range admin.Entries(t.Context(), coll, admin.Query{}) {
					return err
				}
				return nil
			},
		} {
			begun := time.Now()
			if err := read(); !errors.Is(err, away) {
				t.Errorf("%s: %v", name, err)
			}
			if took := time.Since(begun); took > 300*time.Millisecond {
				t.Errorf("%s took %v", name, took)
			}
		}
	})
}
