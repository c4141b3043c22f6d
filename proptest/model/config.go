package model

// config is a world's participants and the limits of its events.
type config struct {
	protocol Protocol
	ruleSets []Rules // one for all clients, or one for each
	tags     []Tag   // one for each client

	ttl, waitTTL, tolerance int64
	tick                    int64 // the clock's advance at once

	patience int64 // an attempt that waits in the server is dropped after this time; 0: never

	steps    int  // how often the server's clocks may step
	faults   int  // attempts that are lost, delayed, or not answered
	writes   int  // per lease, those that keep the lock
	rounds   int  // leases per client, those of tokens included
	tries    bool // clients may try-acquire
	checks   bool // clients may prove the lease by a read
	handoffs bool // clients hand over

	tokens bool        // clients detach, and resume what others detached
	users  int         // the number of clients, the last ones, that only show tokens
	beats  int         // heartbeats in all
	lower  map[Tag]Tag // clients downgrade from the tag to the other
	lowers int         // the number of attempts for each lease that were refused, and one more
	hold   int64       // HoldAtLeast of every acquire; 0: none

	outside       outsideWriter              // what outside writers may do
	outsideWrites int                        // how often they write
	counts        func(property string) bool // which violations count; nil: all

	members   int     // of a replica set; 0: one server
	elections int     // how often another member is elected
	clocks    []int64 // the members' first offsets from the true time; those that are missing: 0
	routers   bool    // the clocks are routers', and each client has one of its own
	skew      int64   // how far the clocks may differ; 0: by the tolerance
	deletes   bool    // clients delete the document under their lease
	missing   bool    // at first there is no document
}

// outsideWriter is what outside writers may do to the document.
type outsideWriter uint8

const (
	nobody  outsideWriter = iota
	deletes               // delete the document, insert it anew
	erases                // erase, spoil or put back the lock as well
)

func (c *config) rules(client int) Rules {
	if len(c.ruleSets) == 1 {
		return c.ruleSets[0]
	}
	return c.ruleSets[client]
}
