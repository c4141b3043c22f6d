package store

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/doclock/doclock/locktest/internal/stage"
	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Copy returns a store with the same documents. A change of one doesn't show in the other.
func (s *Store) Copy() *Store {
	for _, c := range s.collections {
		c.shared = true
	}
	return &Store{Strict: s.Strict, collections: maps.Clone(s.collections)}
}

// Open are the transactions that are open at one server.
type Open struct{ all []*Transaction }

// Transaction is one that is open: the documents as they were when it began, with its own changes.
type Transaction struct {
	open    *Open
	view    *Store
	changes []change        // of its own, in their order
	written set             // the keys of these
	stale   set             // the keys of what others have changed since it began
	used    map[string]bool // the collections that it has looked at
}

// set has keys: those of a document in its indexes, or a collection's namespace.
type set map[string]bool

func (s set) add(keys []string) {
	for _, key := range keys {
		s[key] = true
	}
}

func (s set) has(keys []string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { return s[key] })
}

// change replaces a document. Where there is none before, it is inserted; none after, deleted; neither, a collection is made.
type change struct {
	namespace     string
	before, after bson.RawValue
}

// Begin opens a transaction.
func (o *Open) Begin(s *Store) *Transaction {
	t := &Transaction{open: o, view: s.Copy(), written: set{}, stale: set{}, used: map[string]bool{}}
	o.all = append(o.all, t)
	return t
}

// Execute executes a command in the transaction. It never waits.
func (t *Transaction) Execute(call *Call) bson.RawValue {
	call.Open, call.In = t.open, t
	return t.view.Execute(call)
}

// Writes reports whether the transaction has changed something.
func (t *Transaction) Writes() bool { return len(t.changes) > 0 }

// End closes the transaction. What it has changed is lost, unless it was committed.
func (t *Transaction) End() {
	t.view = nil // a session keeps its last transaction, and shall keep no image
	t.open.all = slices.DeleteFunc(t.open.all, func(other *Transaction) bool { return other == t })
}

// Commit makes the transaction's changes in a store, and ends it.
func (t *Transaction) Commit(s *Store) {
	t.End()
	for _, change := range t.changes {
		s.apply(change)
	}
	for _, other := range t.open.all {
		maps.Copy(other.stale, t.written)
	}
}

// apply makes a change that was allowed.
func (s *Store) apply(change change) {
	coll := s.own(change.namespace)
	var before, after *record
	if !value.IsMissing(change.before) {
		before = coll.find(value.Get(change.before, "_id"))
	}
	if !value.IsMissing(change.after) {
		after = &record{change.after}
	}
	if before != after { // else the collection is all that there is to make
		coll.set(before, after)
	}
}

// errWaits is why a command does not go on before a transaction has ended.
var errWaits = errors.New("locktest: an open transaction has changed this document")

// change makes a change of the command's own, in its transaction if it has one. If another transaction has changed the
// document, the command waits for its end; in a transaction it is refused, and also if the document was changed since.
func (c *command) change(before, after bson.RawValue) error {
	change := change{c.namespace(), before, after}
	if c.Open != nil && len(c.Open.all) > 0 {
		if err := c.claim(c.collection().keys(before, after)); err != nil {
			c.Inserts = value.IsMissing(before)
			return err
		}
	}
	c.store.apply(change)
	c.Changed = true
	if c.In != nil {
		c.In.changes = append(c.In.changes, change)
	}
	return nil
}

// claim has the command be the only one that changes what has these keys.
func (c *command) claim(keys []string) error {
	for _, other := range c.Open.all {
		switch {
		case other == c.In || !other.written.has(keys):
		case c.In != nil:
			return errConflict()
		default:
			return errWaits
		}
	}
	if c.In != nil {
		if c.In.stale.has(keys) {
			return errConflict()
		}
		c.In.written.add(keys)
		return nil
	}
	for _, other := range c.Open.all {
		other.stale.add(keys)
	}
	return nil
}

func errConflict() error {
	return value.Refuse(value.WriteConflict, "WriteConflict error: this operation conflicted with another operation. Please retry your operation or multi-document transaction.")
}

// final reports whether an error of a statement is the command's.
func final(err error) bool {
	var refusal *value.Refusal
	return errors.Is(err, errWaits) || errors.As(err, &refusal) && refusal.Code == value.WriteConflict
}

// ensure makes the command's collection, unless there is one.
func (c *command) ensure() error {
	if c.store.collections[c.namespace()] != nil {
		return nil
	}
	return c.change(value.Missing, value.Missing)
}

// enter looks whether the command may use its collection. One that drops a collection, or makes an index, waits for the
// transactions that use it; those that began before it can't use it any more.
func (c *command) enter() error {
	if c.In != nil {
		c.In.used[c.namespace()] = true
		if c.In.stale[c.namespace()] {
			return value.Refuse(246, "Unable to read from a snapshot due to pending collection catalog changes; please retry the operation.")
		}
	}
	if c.In != nil || c.Open == nil || len(c.indexes) == 0 && !strings.HasPrefix(c.name, "drop") {
		return nil
	}
	of := func(namespace string) bool {
		return namespace == c.namespace() || c.name == "dropDatabase" && strings.HasPrefix(namespace, c.database+".")
	}
	for _, other := range c.Open.all {
		for namespace := range other.used {
			if of(namespace) {
				return errWaits
			}
		}
	}
	for namespace := range c.store.collections {
		for _, other := range c.Open.all {
			other.stale[namespace] = other.stale[namespace] || of(namespace)
		}
	}
	return nil
}

// keys are those of a document in its collection's indexes, before and after a change.
func (c *collection) keys(before, after bson.RawValue) (keys []string) {
	if value.IsMissing(before) && value.IsMissing(after) {
		return []string{c.namespace}
	}
	for _, document := range []bson.RawValue{before, after} {
		if value.IsMissing(document) {
			continue
		}
		keys = append(keys, c.namespace+"\x00"+bucket(value.Get(document, "_id")))
		for _, u := range c.indexes {
			if !u.unique {
				continue
			}
			entries, _ := stage.Entries(u.keys, document)
			for _, entry := range entries {
				keys = append(keys, c.namespace+"\x00"+u.name+"\x00"+bucket(value.Array(entry)))
			}
		}
	}
	return keys
}
