package multilock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	driver "go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// shop is a replica set in memory, in virtual time: categories that are locked, and contacts that
// point to one.
type shop struct {
	testing.TB
	mem *locktest.Server
}

// client is a process of the shop.
type client struct {
	*shop
	*mongo.Client
	categories, contacts *mongo.Collection
	locks                *multilock.Locker
	sent                 commands
}

// commands are those that a client has sent.
type commands struct {
	mu    sync.Mutex
	names []string
	next  func(name string) // is called before each is sent, if it isn't nil
}

func (c *commands) started(_ context.Context, e *driver.CommandStartedEvent) {
	name := e.CommandName
	if comment, ours := e.Command.Lookup("comment").StringValueOK(); ours && name != "createIndexes" {
		name = strings.TrimPrefix(comment, "doclock ")
	}
	if name == "hello" || name == "endSessions" {
		return
	}
	c.mu.Lock()
	c.names = append(c.names, name)
	next := c.next
	c.mu.Unlock()
	if next != nil {
		next(name)
	}
}

// before calls next before each command is sent, or nothing any more.
func (c *commands) before(next func(name string)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next = next
}

// take returns the commands since the last take, without the driver's own.
func (c *commands) take() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := c.names
	c.names = nil
	return strings.Join(names, " ")
}

func inShop(t *testing.T, test func(s *shop), opts ...locktest.Option) {
	t.Helper()
	if opts == nil {
		opts = []locktest.Option{locktest.ReplicaSet()}
	}
	mongotest.Virtual(t, func(t *testing.T) {
		s := &shop{TB: t, mem: locktest.New(t, opts...)}
		s.mem.Collection("categories", doclock.ID(1), doclock.ID(2))
		must(t, s.mem.Collection("contacts").Database().CreateCollection(t.Context(), "contacts")) // two transactions that make it conflict
		test(s)
	})
}

// client connects a process.
func (s *shop) client(rules relations.Rules, opts ...doclock.Option) *client {
	s.Helper()
	c := &client{shop: s}
	c.Client = s.mem.Connect(options.Client().SetMonitor(&driver.CommandMonitor{Started: c.sent.started}))
	db := c.Database(s.mem.Collection("categories").Database().Name())
	c.categories, c.contacts = db.Collection("categories"), db.Collection("contacts")
	var err error
	c.locks, err = multilock.New(c.categories, rules, opts...)
	must(s, err)
	s.Cleanup(func() {
		time.Sleep(time.Minute) // what a test has not released has expired
		ok(s, c.locks.Close(context.Background()))
	})
	return c
}

func (c *client) acquire(tag string, opts ...doclock.AcquireOption) doclock.Lease {
	c.Helper()
	held, err := c.locks.Acquire(c.Context(), doclock.ID(1), tag, opts...)
	must(c, err)
	return held
}

// acquireTwo acquires both documents.
func (c *client) acquireTwo() multilock.Leases {
	c.Helper()
	leases, err := multilock.AcquireAll(c.Context(), c.locks.Want(doclock.ID(1), "write"), c.locks.Want(doclock.ID(2), "write"))
	must(c, err)
	return leases
}

// resume makes a lease of a token, which others may resume, too.
func (c *client) resume() (held doclock.Lease, token string) {
	c.Helper()
	token, err := c.acquire("write").Detach(c.Context())
	must(c, err)
	held, err = c.locks.Resume(c.Context(), doclock.ID(1), token)
	must(c, err)
	return held, token
}

// block has somebody's open transaction write these documents, until unblock is called.
func (s *shop) block(ids ...int) (unblock func()) {
	s.Helper()
	client := s.mem.Connect()
	session, err := client.StartSession()
	must(s, err)
	must(s, session.StartTransaction())
	coll := client.Database(s.mem.Collection("categories").Database().Name()).Collection("categories")
	for _, id := range ids {
		written, err := coll.UpdateOne(mongo.NewSessionContext(s.Context(), session), doclock.ID(id), bson.M{"$set": bson.M{"written": true}})
		if must(s, err); written.MatchedCount != 1 {
			s.Fatalf("there is no document %d", id)
		}
	}
	return func() {
		must(s, session.AbortTransaction(context.Background()))
		session.EndSession(context.Background())
	}
}

// addSlowly begins a transaction of the lease that inserts a contact. It commits when commit is called.
func (c *client) addSlowly(held doclock.Lease, id string) (commit func() error) {
	inside, goOn, done := make(chan bool), make(chan bool), make(chan error)
	go func() {
		done <- held.WithTransaction(c.Context(), func(ctx context.Context) error {
			close(inside)
			<-goOn
			return c.insertAnyway(ctx, id)
		})
	}()
	<-inside
	return func() error {
		close(goOn)
		return <-done
	}
}

// add inserts a contact in a transaction of the lease.
func (c *client) add(held doclock.Lease, id string) error {
	return c.addIn(c.Context(), held, id)
}

func (c *client) addIn(ctx context.Context, held doclock.Lease, id string) error {
	return held.WithTransaction(ctx, func(ctx context.Context) error { return c.insert(ctx, id) })
}

func (c *client) insert(ctx context.Context, id string) error {
	return errOf(c.contacts.InsertOne(ctx, bson.M{"_id": id, "category": 1}))
}

// insertAnyway ignores the end of a transaction's context.
func (c *client) insertAnyway(ctx context.Context, id string) error {
	return c.insert(mongo.NewSessionContext(c.Context(), mongo.SessionFromContext(ctx)), id)
}

// follow acquires "write", and brings the contacts that it has found then.
func (c *client) follow() <-chan []string {
	found := make(chan []string)
	go func() {
		held := c.acquire("write")
		there := c.added()
		ok(c, held.Release(c.Context()))
		found <- there
	}()
	return found
}

// added are the contacts.
func (s *shop) added() (ids []string) {
	s.Helper()
	found, err := s.mem.Collection("contacts").Find(s.Context(), bson.M{}, options.Find().SetSort(bson.M{"_id": 1}))
	must(s, err)
	var docs []struct {
		ID string `bson:"_id"`
	}
	must(s, found.All(s.Context(), &docs))
	for _, d := range docs {
		ids = append(ids, d.ID)
	}
	return ids
}

func (s *shop) has(want ...string) {
	s.Helper()
	if got := s.added(); !slices.Equal(got, want) {
		s.Errorf("the contacts are %q, want %q", got, want)
	}
}

func (c *client) sends(want string) {
	c.Helper()
	if got := c.sent.take(); got != want {
		c.Errorf("sent %q, want %q", got, want)
	}
}

// A transaction is find, fence, the function's own, and the commit. The first one of a lease gives
// its entry a mark, and makes a fence.
func TestTransaction(t *testing.T) {
	t.Parallel()
	inShop(t, func(s *shop) {
		c := s.client(relations.WritePreferring())
		held := c.acquire("read")
		c.sends("acquire")
		must(s, c.add(held, "ann"))
		first := strings.Fields(c.sent.take()) // the mark is set and the fence is made at the same time
		slices.Sort(first[:min(3, len(first))])
		if got := strings.Join(first, " "); got != "createIndexes fence mark transaction transaction insert commitTransaction" {
			s.Errorf("sent %q", got)
		}
		must(s, c.add(held, "bob"))
		c.sends("transaction transaction insert commitTransaction")
		must(s, held.Release(s.Context()))
		c.sends("release")
		s.has("ann", "bob")
	})
}

// A holder that stopped before its transaction writes nothing once another one is in.
func TestStoppedHolderCommitsNothing(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]string{"before the mark": "mark", "before the fence": "fence", "before its find": "transaction", "before the insert": "insert", "before the commit": "commitTransaction"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inShop(t, func(s *shop) {
				s.mem.LimitTransactions(20 * time.Second)
				c, other := s.client(relations.WritePreferring()), s.client(relations.WritePreferring())
				held := c.acquire("read")
				c.sent.before(func(name string) {
					if name == stop {
						c.sent.before(nil)
						time.Sleep(time.Minute)
					}
				})
				go func() {
					time.Sleep(11 * time.Second)
					next := other.acquire("write")
					s.has()
					time.Sleep(2 * time.Minute)
					s.has()
					ok(s, next.Release(s.Context()))
				}()
				err := c.add(held, "late")
				if !errors.Is(err, doclock.ErrLost) {
					s.Errorf("%v, want a loss", err)
				}
				time.Sleep(3 * time.Minute)
				s.has()
			})
		})
	}
}

// Whatever one command of a transaction meets, what its caller and the observer are told is true, and nothing of it
// comes later. Nobody waits for more than the server's limit.
func TestTransactionInTrouble(t *testing.T) {
	t.Parallel()
	troubles := map[string]func(s *shop){
		"a lost request":   func(s *shop) { s.mem.LoseRequests(1) },
		"a lost reply":     func(s *shop) { s.mem.LoseReplies(1) },
		"two lost replies": func(s *shop) { s.mem.LoseReplies(2) },
		"a late request":   func(s *shop) { s.mem.Delay(1, 20*time.Second) },
		"a lost reply, and a late repeat": func(s *shop) {
			s.mem.LoseReplies(1)
			s.mem.Delay(1, 20*time.Second)
		},
		"a refusal": func(s *shop) {
			s.mem.Fail(1, mongo.CommandError{Code: 13, Name: "Unauthorized", Message: "not authorized"})
		},
		"a write conflict": func(s *shop) {
			s.mem.Fail(1, mongo.CommandError{Code: 112, Name: "WriteConflict", Message: "conflict", Labels: []string{"TransientTransactionError"}})
		},
		"an election": func(s *shop) { go s.mem.StepDown() },
		"an old primary": func(s *shop) {
			go func() {
				s.mem.Isolate(s.mem.Primary())
				time.Sleep(30 * time.Second)
				s.mem.Heal()
			}()
		},
	}
	for name, trouble := range troubles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for first := range 9 {
				inShop(t, func(s *shop) { s.meets(first, trouble) })
			}
		})
	}
}

func (s *shop) meets(first int, trouble func(s *shop)) {
	h, observed := hear(s)
	c, other := s.client(relations.WritePreferring(), observed), s.client(relations.WritePreferring())
	var said error
	err := c.locks.Do(s.Context(), doclock.ID(1), "read", func(ctx context.Context, held doclock.Lease) error {
		var n atomic.Int32
		c.sent.before(func(string) {
			if int(n.Add(1)) == first+1 {
				trouble(s)
			}
		})
		said = held.WithTransaction(ctx, func(ctx context.Context) error { return c.insert(ctx, "ann") })
		return nil
	})
	c.sent.before(nil)
	begun := time.Now()
	next := other.acquire("write")
	if waited := time.Since(begun); waited > 2*time.Minute {
		s.Errorf("command %d: waited for %v", first, waited)
	}
	at := s.added()
	time.Sleep(5 * time.Minute)
	if later := s.added(); len(later) != len(at) {
		s.Errorf("command %d: %q came late", first, later)
	}
	switch {
	case said == nil && len(at) == 0:
		s.Errorf("command %d: told that it was committed, and nothing is there", first)
	case said != nil && !errors.Is(said, doclock.ErrOutcomeUnknown) && len(at) > 0:
		s.Errorf("command %d: told %v, and it was committed", first, said)
	}
	s.Logf("command %d: %v; Do: %v; %d there", first, said, err, len(at))
	how := doclock.HowRolledBack
	switch {
	case said == nil:
		how = doclock.HowCommitted
	case errors.Is(said, doclock.ErrOutcomeUnknown):
		how = doclock.HowUndecided
	}
	if told := h.of(doclock.EventTransaction); len(told) != 1 || told[0].How != how || fmt.Sprint(told[0].Err) != fmt.Sprint(said) {
		s.Errorf("command %d: the observer is told %+v of %v", first, told, said)
	}
	ok(s, next.Release(s.Context()))
}

// doubtful runs a transaction of two leases that nobody can ask about: no server is reached from its commit on.
func (s *shop) doubtful(c *client) (leases multilock.Leases, err error) {
	leases = c.acquireTwo()
	c.sent.before(func(name string) {
		if name == "commitTransaction" {
			s.mem.Cut(c.Client)
		}
	})
	err = leases.WithTransaction(s.Context(), func(ctx context.Context) error { return c.insert(ctx, "ann") })
	c.sent.before(nil)
	s.mem.Reconnect(c.Client)
	return leases, err
}

// Nobody is let in beside a transaction that may be committed yet: its leases are left to expire, and
// nothing that ends one of them is sent.
func TestUndecidedLeaseIsLeftToExpire(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(context.Context, multilock.Leases) error{
		"Release": func(ctx context.Context, leases multilock.Leases) error { return leases[1].Release(ctx) },
		"UpdateAndRelease": func(ctx context.Context, leases multilock.Leases) error {
			return leases[1].UpdateAndRelease(ctx, bson.M{"$inc": bson.M{"n": 1}})
		},
		"Delete": func(ctx context.Context, leases multilock.Leases) error { return leases[1].Delete(ctx) },
		"Detach": func(ctx context.Context, leases multilock.Leases) error { return errOf(leases[1].Detach(ctx)) },
		"Convert": func(ctx context.Context, leases multilock.Leases) error {
			return errOf(leases[1].Convert(ctx, "write"))
		},
		"Leases.Release": func(ctx context.Context, leases multilock.Leases) error { return leases.Release(ctx) },
		"WithTransaction": func(ctx context.Context, leases multilock.Leases) error {
			return leases[1].WithTransaction(ctx, func(context.Context) error { return errors.New("it runs") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inShop(t, func(s *shop) {
				h, observed := hear(s)
				c := s.client(relations.Exclusive(), observed)
				leases, err := s.doubtful(c)
				if !errors.Is(err, doclock.ErrOutcomeUnknown) {
					s.Fatalf("%v, want an unknown outcome", err)
				}
				if told := h.of(doclock.EventTransaction); len(told) != 2 || told[1].How != doclock.HowUndecided {
					s.Errorf("the observer is told %+v", told)
				}
				c.sent.take()
				if err := end(s.Context(), leases); !errors.Is(err, doclock.ErrOutcomeUnknown) {
					s.Errorf("%v, want an unknown outcome", err)
				}
				c.sends("")
				if name == "WithTransaction" || name == "UpdateAndRelease" || name == "Delete" || name == "Detach" || name == "Convert" {
					_ = leases[1].Release(s.Context())
					c.sends("")
				}
				other := s.client(relations.Exclusive())
				ok(s, other.acquire("write").Release(s.Context()))
				if got := other.sent.take(); !strings.Contains(got, "settle") {
					s.Errorf("the next holder has sent %q", got)
				}
			})
		})
	}
}

// Nothing is sent of what is refused.
func TestTransactionRefused(t *testing.T) {
	t.Parallel()
	inShop(t, func(s *shop) {
		c := s.client(relations.Exclusive())
		held := c.acquire("write")
		session, err := c.StartSession()
		must(s, err)
		defer session.EndSession(s.Context())
		must(s, session.StartTransaction())
		c.sent.take()
		inserts := func(ctx context.Context) error { return c.insert(ctx, "ann") }
		for want, err := range map[error]error{
			doclock.ErrInTransaction:   held.WithTransaction(mongo.NewSessionContext(s.Context(), session), inserts),
			doclock.ErrInvalidArgument: held.WithTransaction(s.Context(), nil),
			doclock.ErrLost:            multilock.Leases{held, nil}.WithTransaction(s.Context(), inserts),
		} {
			if !errors.Is(err, want) {
				s.Errorf("%v, want %v", err, want)
			}
		}
		for _, leases := range []multilock.Leases{{}, {held, stranger{}}} {
			if err := leases.WithTransaction(s.Context(), inserts); !errors.Is(err, doclock.ErrInvalidArgument) {
				s.Errorf("%v", err)
			}
		}
		other := s.client(relations.Exclusive())
		theirs, err := other.locks.Acquire(s.Context(), doclock.ID(2), "write")
		must(s, err)
		if err := (multilock.Leases{held, theirs}).WithTransaction(s.Context(), inserts); !errors.Is(err, doclock.ErrInvalidArgument) || !strings.Contains(err.Error(), "two clients") {
			s.Errorf("%v", err)
		}
		c.sends("")
		ok(s, multilock.Leases{held, theirs}.Release(s.Context()))
		if err := c.add(held, "ann"); !errors.Is(err, doclock.ErrReleased) {
			s.Errorf("%v", err)
		}
		s.has()
	})
	inShop(t, func(s *shop) { // a standalone server
		c := s.client(relations.Exclusive())
		held := c.acquire("write")
		c.sent.take()
		if err := c.add(held, "ann"); !errors.Is(err, doclock.ErrUnsupportedServer) || !strings.Contains(err.Error(), "replica set") {
			s.Errorf("%v", err)
		}
		c.sends("")
		ok(s, held.Release(s.Context()))
	}, func(*locktest.Server) {})
}

type stranger struct{ doclock.Lease }

// Inside of a transaction the lease's own commands are refused, and none is sent. A write of the document goes by the
// guard.
func TestInsideOfATransaction(t *testing.T) {
	t.Parallel()
	inShop(t, func(s *shop) {
		c := s.client(relations.Exclusive())
		held := c.acquire("write")
		must(s, held.WithTransaction(s.Context(), func(ctx context.Context) error {
			c.sent.take()
			for name, err := range map[string]error{
				"Update": held.Update(ctx, bson.M{"$inc": bson.M{"n": 1}}), "UpdateAndRelease": held.UpdateAndRelease(ctx, bson.M{"$inc": bson.M{"n": 1}}),
				"Release": held.Release(ctx), "Delete": held.Delete(ctx), "Detach": errOf(held.Detach(ctx)), "Convert": errOf(held.Convert(ctx, "write")),
				"Renew": held.Renew(ctx), "WithTransaction": c.addIn(ctx, held, "bob"),
				"Acquire": errOf(c.locks.Acquire(ctx, doclock.ID(2), "write")), "CheckServer": errOf(doclock.CheckServer(ctx, c.categories)),
			} {
				if !errors.Is(err, doclock.ErrInTransaction) {
					s.Errorf("%s: %v", name, err)
				}
			}
			c.sends("")
			res, err := c.categories.UpdateOne(ctx, held.Guard(), bson.M{"$set": bson.M{"contacts": 1}})
			if err == nil && res.MatchedCount != 1 {
				err = errors.New("the guard matches nothing")
			}
			return errors.Join(err, c.insert(ctx, "ann"))
		}))
		ok(s, held.Release(s.Context()))
		s.has("ann")
	})
}

// The error of the function is the caller's, after a rollback. So is its panic, which ends its context, too. An error that
// passes has it run again.
func TestFunctionOfATransaction(t *testing.T) {
	t.Parallel()
	inShop(t, func(s *shop) {
		h, observed := hear(s)
		c := s.client(relations.Exclusive(), observed)
		held := c.acquire("write")
		h.want("granted 1")
		own := errors.New("the function's own")
		if err := held.WithTransaction(s.Context(), func(ctx context.Context) error { return errors.Join(c.insert(ctx, "ann"), own) }); !errors.Is(err, own) {
			s.Errorf("%v", err)
		}
		var work context.Context
		func() {
			defer func() {
				if recover() != own || work.Err() == nil {
					s.Errorf("no panic, or its context goes on: %v", work.Err())
				}
			}()
			_ = held.WithTransaction(s.Context(), func(ctx context.Context) error { work = ctx; _ = c.insert(ctx, "ann"); panic(own) })
		}()
		s.has()
		h.want("rolled back") // of the first: the panic has no event
		runs := 0
		must(s, held.WithTransaction(s.Context(), func(ctx context.Context) error {
			if runs++; runs < 3 {
				s.mem.Fail(1, mongo.CommandError{Code: 112, Message: "conflict", Labels: []string{"TransientTransactionError"}})
			}
			return c.insert(ctx, "ann")
		}))
		h.want("committed") // once, though it ran again
		if runs != 3 {
			s.Errorf("it ran %d times", runs)
		}
		s.has("ann")
		// an error of the driver's that it swallows has ended the transaction
		err := held.WithTransaction(s.Context(), func(ctx context.Context) error {
			_ = c.insert(ctx, "ann") // a duplicate
			_ = c.insert(ctx, "bob")
			return nil
		})
		if err == nil || errors.Is(err, doclock.ErrOutcomeUnknown) || !strings.Contains(err.Error(), "before its commit") || !strings.Contains(err.Error(), "let the function return it") {
			s.Errorf("%v", err)
		}
		s.has("ann")
		held.KeepAlive(s.Context())
		err = held.WithTransaction(s.Context(), func(ctx context.Context) error {
			time.Sleep(2 * time.Minute) // more than the server's limit
			return c.insert(ctx, "bob")
		})
		if err == nil || !strings.Contains(err.Error(), "transactionLifetimeLimitSeconds") {
			s.Errorf("%v", err)
		}
		begun, last := time.Now(), time.Duration(0)
		err = held.WithTransaction(s.Context(), func(ctx context.Context) error {
			last = time.Since(begun)
			s.mem.Fail(1, mongo.CommandError{Code: 112, Message: "conflict", Labels: []string{"TransientTransactionError"}})
			return c.insert(ctx, "bob")
		})
		if err == nil || last < 29*time.Second || last > 31*time.Second {
			s.Errorf("%v, of a run after %v", err, last)
		}
		ctx, end := context.WithCancel(s.Context())
		err = held.WithTransaction(ctx, func(ctx context.Context) error { defer end(); return c.insert(ctx, "bob") })
		if !errors.Is(err, context.Canceled) || errors.Is(err, doclock.ErrOutcomeUnknown) {
			s.Errorf("%v", err)
		}
		s.has("ann")
		ok(s, held.Release(s.Context()))
	})
}

// The function's context ends when the lease's time is up, and its transaction is rolled back.
func TestContextOfATransactionEndsWithTheLease(t *testing.T) {
	t.Parallel()
	inShop(t, func(s *shop) {
		c := s.client(relations.Exclusive())
		held := c.acquire("write") // which nothing renews
		begun := time.Now()
		err := held.WithTransaction(s.Context(), func(ctx context.Context) error {
			must(s, c.insert(ctx, "ann"))
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(time.Minute):
				return errors.New("it goes on")
			}
		})
		if lasted := time.Since(begun); !errors.Is(err, doclock.ErrLost) || lasted < 9*time.Second || lasted > 11*time.Second {
			s.Errorf("%v after %v", err, lasted)
		}
		s.has()
	})
}

// A panic in the client's monitor comes out of the call, at whatever command, and the lease goes on.
func TestMonitorPanicsInATransaction(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"mark", "fence", "transaction", "insert", "commitTransaction"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			inShop(t, func(s *shop) {
				c := s.client(relations.Exclusive())
				held := c.acquire("write")
				own := errors.New("the monitor's own")
				c.sent.before(func(name string) {
					if name == command {
						c.sent.before(nil)
						panic(own)
					}
				})
				func() {
					defer func() {
						if got := recover(); got != own {
							s.Errorf("panic %v", got)
						}
					}()
					s.Errorf("it returned %v", c.add(held, "ann"))
				}()
				must(s, c.add(held, "bob"))
				ok(s, held.Release(s.Context()))
				if there := s.added(); !slices.Contains(there, "bob") {
					s.Errorf("the contacts are %q", there)
				}
			})
		})
	}
}

// What ends a lease waits for its transactions.
func TestReleaseWaitsForTransactions(t *testing.T) {
	t.Parallel()
	inShop(t, func(s *shop) {
		c := s.client(relations.ReadPreferring(), doclock.ShareInProcess("read"))
		held, other := c.acquire("read"), c.acquire("read")
		if held.ID() != other.ID() {
			s.Fatal("not shared")
		}
		done := make(chan error)
		for i, l := range []doclock.Lease{held, other} {
			go func() {
				done <- l.WithTransaction(s.Context(), func(ctx context.Context) error {
					time.Sleep(3 * time.Second)
					return c.insert(ctx, string(rune('a'+i)))
				})
			}()
		}
		synctest.Wait()
		begun := time.Now()
		ok(s, held.Release(s.Context()))
		ok(s, other.Release(s.Context()))
		if waited := time.Since(begun); waited < 2*time.Second || waited > 4*time.Second {
			s.Errorf("waited for %v", waited)
		}
		ok(s, errors.Join(<-done, <-done)) // both ran at the same time
		s.has("a", "b")
	})
}

// A test's server that takes a lock away commits nothing under it.
func TestTransactionOfALockThatIsTakenAway(t *testing.T) {
	t.Parallel()
	inShop(t, func(s *shop) {
		c := s.client(relations.Exclusive())
		held := c.acquire("write")
		err := held.WithTransaction(s.Context(), func(ctx context.Context) error {
			inserted := c.insert(ctx, "ann")
			ok(s, s.mem.Lose(held))
			return inserted
		})
		if s.has(); !errors.Is(err, doclock.ErrLost) {
			s.Errorf("%v", err)
		}
	})
}

// A transaction under several leases is committed while all are held. Its commit counts for each of them.
func TestTransactionOfSeveral(t *testing.T) {
	t.Parallel()
	inShop(t, func(s *shop) {
		h, observed := hear(s)
		c := s.client(relations.Exclusive(), observed)
		leases := c.acquireTwo()
		h.want("granted", "granted")
		must(s, leases.WithTransaction(s.Context(), func(ctx context.Context) error { time.Sleep(time.Second); return c.insert(ctx, "ann") }))
		committed := h.want("committed", "committed")
		for i, e := range committed {
			if e.LeaseID != leases[i].ID() || e.Waited < time.Second || e.Commands != committed[0].Commands {
				s.Errorf("lease %d: %+v", i, e)
			}
		}
		must(s, s.mem.Lose(leases[1]))
		if err := leases.WithTransaction(s.Context(), func(ctx context.Context) error { return c.insert(ctx, "bob") }); !errors.Is(err, doclock.ErrLost) {
			s.Errorf("%v", err)
		}
		h.want("lost", "rolled back", "rolled back")
		s.has("ann")
		_ = leases.Release(s.Context())
	})
}

// Nobody waits for a transaction whose begin comes late: it has only read.
func TestNobodyWaitsForALateBegin(t *testing.T) {
	t.Parallel()
	inShop(t, func(s *shop) {
		c := s.client(relations.Exclusive())
		held := c.acquire("write")
		must(s, c.add(held, "ann"))
		c.sent.take()
		ctx, end := context.WithTimeout(s.Context(), time.Second)
		defer end()
		s.mem.Delay(1, 2*time.Second, locktest.Transactions)
		if err := c.addIn(ctx, held, "bob"); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, doclock.ErrOutcomeUnknown) {
			s.Errorf("%v", err)
		}
		c.sends("transaction abortTransaction")
		begun := time.Now()
		ok(s, s.client(relations.Exclusive()).acquire("write").Release(s.Context())) // of an entry that has expired, and has a mark
		if took := time.Since(begun); took > 15*time.Second {
			s.Errorf("the next holder has waited for %v", took)
		}
	})
}

// The filter demands another state than the document has, and the entry has a mark. That says nothing of the token, and a
// resume, which would settle the holder's open transaction, waits for none.
func TestRule23AResumeInAnotherStateSettlesNothing(t *testing.T) {
	t.Parallel()
	inShop(t, func(s *shop) {
		c, other := s.client(relations.WritePreferring(), doclock.TTL(time.Hour)), s.client(relations.WritePreferring())
		held, token := c.resume()
		must(s, held.WithTransaction(s.Context(), func(ctx context.Context) error {
			begun, sold := time.Now(), bson.M{"_id": 1, "state": "sold"}
			for name, err := range map[string]error{
				"Resume": errOf(other.locks.Resume(s.Context(), sold, token)), "Touch": other.locks.Touch(s.Context(), sold, token),
			} {
				if took := time.Since(begun); !errors.Is(err, doclock.ErrNotFound) || errors.Is(err, doclock.ErrLost) || took > time.Second {
					s.Errorf("%s of another state, after %v: %v", name, took, err)
				}
			}
			must(s, other.locks.Touch(s.Context(), doclock.ID(1), token)) // and it is there
			return c.insert(ctx, "ann")
		}))
		ok(s, held.Release(s.Context()))
	})
}

// A rollback is a command that was sent for the lease.
func TestEventsCountARollback(t *testing.T) {
	t.Parallel()
	inShop(t, func(s *shop) {
		h, observed := hear(s)
		c := s.client(relations.Exclusive(), observed)
		held := c.acquire("write")
		must(s, c.add(held, "ann"))
		c.sent.take()
		before, own := h.of(doclock.EventTransaction)[0].Commands, errors.New("the function's own")
		if err := held.WithTransaction(s.Context(), func(context.Context) error { return own }); !errors.Is(err, own) {
			s.Errorf("%v", err)
		}
		c.sends("transaction transaction abortTransaction")
		if n := h.of(doclock.EventTransaction)[1].Commands - before; n != 3 {
			s.Errorf("%d commands are counted, want 3", n)
		}
		ok(s, held.Release(s.Context()))
	})
}

// A lock that a newer version has written is left alone by a resume, also if its entry has had a transaction.
func TestResumeOfAMarkedEntryInANewerLock(t *testing.T) {
	t.Parallel()
	inShop(t, func(s *shop) {
		c := s.client(relations.Exclusive())
		held := c.acquire("write")
		must(s, c.add(held, "ann"))
		token, err := held.Detach(s.Context())
		must(s, err)
		must(s, errOf(c.categories.UpdateOne(s.Context(), doclock.ID(1), bson.M{"$set": bson.M{"lock.v": 3}})))
		ctx, cancel := context.WithCancel(s.Context())
		defer cancel()
		var sent atomic.Int32
		c.sent.before(func(string) {
			if sent.Add(1) == 50 { // it asks for ever, without a pause
				cancel()
			}
		})
		if err := errOf(c.locks.Resume(ctx, doclock.ID(1), token)); !errors.Is(err, doclock.ErrForeignLock) {
			s.Errorf("%v after %d commands, want a foreign lock", err, sent.Load())
		}
		c.sent.before(nil)
	})
}
