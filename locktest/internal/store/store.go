package store

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/doclock/doclock/locktest/internal/expr"
	"github.com/doclock/doclock/locktest/internal/query"
	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Store is a database's documents. It is not safe for concurrent use.
type Store struct {
	collections map[string]*collection // by their namespaces

	Strict bool // see [expr.Scope]; to be set before the first command
}

// New makes an empty store.
func New() *Store { return &Store{collections: map[string]*collection{}} }

// Call is a command on its way to a store, and what it has done so far.
type Call struct {
	Now     time.Time
	Began   time.Time // its $$NOW
	Command value.Document
	Open    *Open        // the transactions that are open beside it, if any may be
	In      *Transaction // its own one, if it has one

	Changed bool // it has changed something
	Waits   bool // for the end of a transaction: it is to be executed again, and goes on from there
	Inserts bool // what waits is an insert, which goes on when its time is up
	Progress
}

// command is one command on its way.
type command struct {
	*Call
	store    *Store
	name     string
	database string
	value.Document
	query   query.Query
	indexes []index // that it is to make
}

// commands are those that are known. The first field names the command.
var commands = map[string]func(*command) (value.Document, error){
	"find":            (*command).find,
	"aggregate":       (*command).aggregate,
	"findAndModify":   (*command).findAndModify,
	"insert":          (*command).inserts,
	"update":          (*command).update,
	"delete":          (*command).delete,
	"count":           (*command).count,
	"listCollections": (*command).listCollections,
	"listDatabases":   (*command).listDatabases,
	"create":          (*command).create,
	"createIndexes":   (*command).createIndexes,
	"drop":            (*command).drop,
	"dropDatabase":    (*command).drop,
	"saslStart":       noUser,
	"ping":            done,
	"endSessions":     done,
	"killCursors":     done,
	"buildInfo":       buildInfo,
}

func done(*command) (value.Document, error) { return nil, nil }

// Run executes a command at the server's time now, beside no transaction, and returns the reply.
func (s *Store) Run(now time.Time, document value.Document) bson.RawValue {
	return s.Execute(&Call{Now: now, Began: now, Command: document})
}

// Execute executes a command, and returns the reply, or none if it waits.
func (s *Store) Execute(call *Call) bson.RawValue {
	c := &command{
		Call: call, store: s, name: call.Command[0].Key, database: value.Text(call.Command.Get("$db")), Document: call.Command,
		query: query.Query{Now: value.Time(call.Began), Strict: s.Strict},
	}
	call.Waits, call.Inserts = false, false
	var err error
	if c.query.Let, err = expr.Let(c.Get("let"), c.query.Now); err != nil {
		return Refused(err)
	}
	reply, err := c.run()
	switch {
	case errors.Is(err, errWaits):
		call.Waits = true
		return value.Missing
	case err != nil:
		return Refused(err)
	}
	return append(reply, value.Field{Key: "ok", Value: value.Double(1)}).Close()
}

func (c *command) run() (value.Document, error) {
	if c.Open == nil && value.Text(value.Get(c.Get("readConcern"), "level")) == "linearizable" {
		return nil, value.Refuse(value.NotAReplicaSet, "node needs to be a replica set member to use read concern")
	}
	run, known := commands[c.name]
	if !known {
		return nil, value.Refuse(value.CommandNotFound, "locktest does not support the command %s", c.name)
	}
	if known := fields[c.name]; known != nil {
		if name := value.Text(c.Document[0].Value); c.name != "aggregate" && (name == "" || strings.ContainsAny(name, "$\x00")) {
			return nil, value.Refuse(73, "Invalid namespace specified '%s'", c.namespace())
		}
		if err := refuseFields(c.Document[1:], c.name, known, without); err != nil {
			return nil, err
		}
	}
	if c.name == "createIndexes" {
		if err := c.checkIndexes(); err != nil {
			return nil, err
		}
	}
	if err := c.enter(); err != nil {
		return nil, err
	}
	return run(c)
}

// Refused is the reply of a command that was refused.
func Refused(err error) bson.RawValue {
	var refusal *value.Refusal
	if !errors.As(err, &refusal) {
		refusal = value.Refuse(value.BadValue, "%v", err)
	}
	reply := append(value.Document{
		{Key: "ok", Value: value.Double(0)},
		{Key: "errmsg", Value: value.String(refusal.Message)},
		{Key: "code", Value: value.Int(refusal.Code)},
		{Key: "codeName", Value: value.String(refusal.CodeName())},
	}, refusal.More...)
	if len(refusal.Labels) > 0 {
		reply = append(reply, value.Field{Key: "errorLabels", Value: value.Of(refusal.Labels)})
	}
	return reply.Close()
}

// Collections are the namespaces of those that were written to.
func (s *Store) Collections() []string { return slices.Collect(maps.Keys(s.collections)) }

// namespace is the name of the command's collection.
func (c *command) namespace() string { return c.database + "." + value.Text(c.Document[0].Value) }

// collection is the command's collection. One that is not stored is empty.
func (c *command) collection() *collection {
	known := c.store.collections[c.namespace()]
	if known == nil {
		known = &collection{namespace: c.namespace()}
	}
	return known
}

// own is the command's collection, which is made if there is none, for a change. One that copies of the store have, too, is
// copied first.
func (s *Store) own(namespace string) *collection {
	known := s.collections[namespace]
	switch {
	case known == nil:
		known = &collection{namespace: namespace}
	case known.shared:
		known = known.clone()
	default:
		return known
	}
	s.collections[namespace] = known
	return known
}

func (c *command) drop() (value.Document, error) {
	for namespace := range c.store.collections {
		if namespace == c.namespace() || c.name == "dropDatabase" && strings.HasPrefix(namespace, c.database+".") {
			delete(c.store.collections, namespace)
			c.Changed = true
		}
	}
	return nil, nil
}

// create makes a plain collection. One that is there is an error in a transaction alone.
func (c *command) create() (value.Document, error) {
	for _, kind := range []string{"viewOn", "validator", "capped", "timeseries", "clusteredIndex"} {
		if v := c.Get(kind); !value.IsMissing(v) && value.Truth(v) {
			return nil, value.Unsupported("a collection with %s", kind)
		}
	}
	if c.In != nil && c.store.collections[c.namespace()] != nil {
		return nil, value.Refuse(48, "Collection %s already exists.", c.namespace())
	}
	return nil, c.ensure()
}

func noUser(*command) (value.Document, error) {
	return nil, value.Refuse(value.NoUser, "Authentication failed.")
}

func buildInfo(*command) (value.Document, error) {
	return value.Document{{Key: "version", Value: value.String("8.0.0-locktest")}}, nil
}

// WireVersion is that of MongoDB 8.0.
const WireVersion = 25
