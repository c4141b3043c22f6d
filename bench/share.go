package main

import (
	"context"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// doclockShared is one reader of another process, in the document's terms,
// beside the readers of one process that share their entry.
type doclockShared struct {
	*doclockTagged
	sharing *multilock.Locker
}

func openShared(ctx context.Context, s *servers, ttl time.Duration) (subject, error) {
	tagged, err := openTagged("read-preferring")(ctx, s, ttl)
	if err != nil {
		return nil, err
	}
	d := &doclockShared{doclockTagged: tagged.(*doclockTagged)}
	d.sharing, err = multilock.New(d.docs, relations.ReadPreferring(), doclock.TTL(ttl), doclock.ShareInProcess("read"))
	return d, err
}

// crowd acquires n leases, and lets them expire.
func (d *doclockShared) crowd(ctx context.Context, key string, n int) error {
	for range n {
		if _, err := d.sharing.Acquire(ctx, bson.M{"_id": key}, "read"); err != nil {
			return err
		}
	}
	return nil
}

func (d *doclockShared) close() {
	closeLocker(d.sharing)
	d.doclockTagged.close()
}
