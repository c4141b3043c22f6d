package admin_test

import (
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// rightsUse is a use of a collection with four documents: "free", "job", and with
// expired entries "old" and "idle".
type rightsUse func(ctx context.Context, coll *mongo.Collection) error

// rightsUses are the lines of the table of rights in docs/production.md, by their beginnings.
var rightsUses = map[string]rightsUse{
	"a Locker of any kind;":     locked("free", lockInAllWays),
	"with the option `Upsert`;": locked("new", func(context.Context, *multilock.Locker, doclock.Lease) error { return nil }, doclock.Upsert()),
	"`Lease.Delete`":            locked("free", func(ctx context.Context, _ *multilock.Locker, l doclock.Lease) error { return l.Delete(ctx) }),
	"an update with `SetBypass": locked("free", func(ctx context.Context, _ *multilock.Locker, l doclock.Lease) error {
		return l.Update(ctx, bson.M{"$set": bson.M{"n": 1}}, options.UpdateOne().SetBypassDocumentValidation(true))
	}),
	onFences:                           writeElsewhere,
	"`admin.Inspect`, `admin.Entries`": lookAtAll,
	"`admin.Break`, ":                  removeAll,
	"`admin.Sweep` with `DeleteIdle`": func(ctx context.Context, coll *mongo.Collection) error {
		return errOf(admin.Sweep(ctx, coll, admin.DeleteIdle(2*time.Hour)))
	},
	"`admin.EnsureIndexes`;": func(ctx context.Context, coll *mongo.Collection) error {
		return errOf(admin.EnsureIndexes(ctx, coll, []string{"write"}))
	},
}

// onFences begins the line whose actions are on the fences. The collection has those of a Locker.
const onFences = "`Lease.WithTransaction`"

// writeElsewhere has a transaction that the server ends before its commit, because of an error that its function
// swallows, and then one that is committed.
func writeElsewhere(ctx context.Context, coll *mongo.Collection) error {
	runs := 0
	return locked("free", func(ctx context.Context, _ *multilock.Locker, lease doclock.Lease) error {
		return lease.WithTransaction(ctx, func(ctx context.Context) error {
			if runs++; runs == 1 {
				_, _ = coll.UpdateOne(ctx, doclock.ID("job"), bson.M{"$set": bson.M{"_id": "another"}})
			}
			return nil
		})
	})(ctx, coll)
}

// locked locks a document, and does this with the lease.
func locked(id string, then func(context.Context, *multilock.Locker, doclock.Lease) error, opts ...doclock.Option) rightsUse {
	return func(ctx context.Context, coll *mongo.Collection) (err error) {
		if _, err := doclock.CheckServer(ctx, coll); err != nil {
			return err
		}
		locks, err := multilock.New(coll, relations.Exclusive(), append(opts, doclock.TTL(time.Hour))...)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, locks.Close(ctx)) }()
		lease, err := locks.Acquire(ctx, doclock.ID(id), "write")
		if err != nil {
			return err
		}
		return errors.Join(then(ctx, locks, lease), lease.Release(ctx))
	}
}

func lockInAllWays(ctx context.Context, locks *multilock.Locker, lease doclock.Lease) error {
	_, refused := locks.TryAcquire(ctx, doclock.ID("free"), "write")
	_, missing := locks.TryAcquire(ctx, doclock.ID("absent"), "write")
	if !errors.Is(refused, doclock.ErrConflict) || !errors.Is(missing, doclock.ErrNotFound) {
		return errors.Join(refused, missing)
	}
	claimed, err := locks.Acquire(ctx, bson.M{"_id": bson.M{"$gte": "free", "$lte": "job"}}, "write", doclock.SkipLocked())
	if err != nil {
		return err
	}
	token, err := claimed.Detach(ctx)
	if err != nil {
		return err
	}
	resumed, err := locks.Resume(ctx, bson.M{"_id": claimed.DocumentID()}, token)
	if err != nil {
		return err
	}
	set := bson.M{"$set": bson.M{"n": 1}}
	return errors.Join(resumed.UpdateAndRelease(ctx, set), lease.Renew(ctx), lease.Update(ctx, set))
}

func lookAtAll(ctx context.Context, coll *mongo.Collection) error {
	return errors.Join(first(admin.Entries(ctx, coll, admin.Query{})), errOf(admin.Inspect(ctx, coll, doclock.ID("old"))))
}

func removeAll(ctx context.Context, coll *mongo.Collection) error {
	lock, err := admin.Inspect(ctx, coll, doclock.ID("old"))
	if err != nil {
		return err
	}
	_, broken := admin.Break(ctx, coll, lock.Entries[0])
	_, swept := admin.Sweep(ctx, coll)
	_, released := admin.Remove(ctx, coll, admin.Query{Owner: "of ann"})
	return errors.Join(broken, swept, released)
}

// With the actions of its line each use succeeds. Without any one of them it fails with
// the server's refusal. CheckServer doesn't take such a server for an unsupported one.
func TestRights(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/production.md")
	must(t, err)
	_, table, _ := strings.Cut(string(text), "\n## Rights\n")
	table, _, _ = strings.Cut(table, "\n### ")
	lines := regexp.MustCompile(`(?m)^\| (.*) \| (.*) \|$`).FindAllStringSubmatch(table, -1)[1:]
	if len(lines) != len(rightsUses) {
		t.Errorf("the page has %d lines, the test %d", len(lines), len(rightsUses))
	}
	for beginning, use := range rightsUses {
		i := slices.IndexFunc(lines, func(line []string) bool { return strings.HasPrefix(line[1], beginning) })
		if i < 0 {
			t.Errorf("the page has no line %q", beginning)
			continue
		}
		actions := strings.Split(strings.ReplaceAll(lines[i][2], "`", ""), ", ")
		t.Run(beginning, func(t *testing.T) {
			if err := withRights(t, use, beginning == onFences, actions...); err != nil {
				t.Errorf("with %q: %v", actions, err)
			}
			for _, missing := range actions {
				err := withRights(t, use, beginning == onFences, slices.DeleteFunc(slices.Clone(actions), func(a string) bool { return a == missing })...)
				if err == nil || errors.Is(err, doclock.ErrUnsupportedServer) || !strings.Contains(err.Error(), "not authorized on ") {
					t.Errorf("without %s: %v", missing, err)
				}
			}
		})
	}
}

// withRights is the use's error behind a server that grants these actions, on the collection or on the fences.
func withRights(t *testing.T, use rightsUse, fences bool, actions ...string) error {
	if fences {
		mongotest.Members(t)
	}
	p := alone(t)
	p.Insert(idIs("free"))
	p.Insert(idIs("job"))
	ago := time.Since(at(time.Minute))
	p.Insert(idIs("old"), lock(9, tag("write", entry("ann", 3, 4, ago), entry("bob", 4, 5, ago))), bson.E{Key: "n", Value: 0})
	p.Insert(idIs("idle"), lock(9, tag("write", entry("cid", 4, 5, ago))))
	net := faultnet.New()
	net.Refuse(func(name string, command bson.Raw) any {
		for _, action := range needed(name, command) {
			granted := actions
			if coll, _ := command.Index(0).Value().StringValueOK(); fences && coll != "doclock.fences" {
				granted = []string{"find", "update"}
			}
			if !slices.Contains(granted, action) {
				return bson.M{"ok": 0, "code": 13, "codeName": "Unauthorized", "errmsg": "not authorized on test to execute command " + name}
			}
		}
		return nil
	})
	return use(t.Context(), p.Through(options.Client().SetDialer(net)))
}

// needed are the actions that MongoDB demands (privilege-actions in its manual). A
// command that isn't here needs one that nobody grants.
func needed(name string, command bson.Raw) (actions []string) {
	has := func(path ...string) bool { return command.Lookup(path...).Type != 0 }
	switch name {
	case "hello", "buildInfo", "commitTransaction", "abortTransaction":
		return nil
	case "find":
		return []string{"find"}
	case "findAndModify":
		actions = []string{"find", "update"}
		if has("remove") {
			actions[1] = "remove"
		}
	case "update":
		actions = []string{"update"}
	case "delete":
		actions = []string{"remove"}
	case "createIndexes":
		actions = []string{"createIndex"}
	default:
		return []string{"the command " + name}
	}
	if has("bypassDocumentValidation") {
		actions = append(actions, "bypassDocumentValidation")
	}
	if has("updates", "0", "upsert") || has("upsert") {
		actions = append(actions, "insert")
	}
	return actions
}
