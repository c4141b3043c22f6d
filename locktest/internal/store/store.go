package store

import (
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/doclock/doclock/locktest/internal/expr"
	"github.com/doclock/doclock/locktest/internal/query"
	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Store is safe for concurrent use: a command sees no part of another one.
type Store struct {
	mu          sync.Mutex
	collections map[string]*collection // by their namespaces

	Strict bool // see [expr.Scope]; to be set before the first command
}

// New makes an empty store.
func New() *Store { return &Store{collections: map[string]*collection{}} }

// command is one command on its way.
type command struct {
	store    *Store
	name     string
	database string
	value.Document
	query query.Query
}

// commands are those that are known. The first field names the command.
var commands = map[string]func(*command) (value.Document, error){
	"find":            (*command).find,
	"aggregate":       (*command).aggregate,
	"findAndModify":   (*command).findAndModify,
	"insert":          (*command).insert,
	"update":          (*command).update,
	"delete":          (*command).delete,
	"count":           (*command).count,
	"listCollections": (*command).listCollections,
	"listDatabases":   (*command).listDatabases,
	"create":          (*command).create,
	"createIndexes":   (*command).createIndexes,
	"drop":            (*command).drop,
	"dropDatabase":    (*command).dropDatabase,
	"saslStart":       noUser,
	"ping":            done,
	"endSessions":     done,
	"killCursors":     done,
	"buildInfo":       buildInfo,
}

func done(*command) (value.Document, error) { return nil, nil }

// Run executes a command at the server's time now, and returns the reply.
func (s *Store) Run(now time.Time, document value.Document) bson.RawValue {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &command{
		store: s, name: document[0].Key, database: value.Text(document.Get("$db")), Document: document,
		query: query.Query{Now: value.Time(now), Strict: s.Strict},
	}
	var err error
	if c.query.Let, err = expr.Let(document.Get("let"), c.query.Now); err != nil {
		return Refused(err)
	}
	reply, err := c.run()
	if err != nil {
		return Refused(err)
	}
	return append(reply, value.Field{Key: "ok", Value: value.Double(1)}).Close()
}

func (c *command) run() (value.Document, error) {
	if value.Text(value.Get(c.Get("readConcern"), "level")) == "linearizable" {
		return nil, value.Refuse(value.NotAReplicaSet, "node needs to be a replica set member to use read concern")
	}
	run, known := commands[c.name]
	if !known {
		return nil, value.Refuse(value.CommandNotFound, "locktest does not support the command %s", c.name)
	}
	if known := fields[c.name]; known != nil {
		if name := value.Text(c.Document[0].Value); c.name != "aggregate" && (name == "" || strings.Contains(name, "$")) {
			return nil, value.Refuse(73, "Invalid namespace specified '%s'", c.namespace())
		}
		if err := refuseFields(c.Document[1:], c.name, known, without); err != nil {
			return nil, err
		}
	}
	return run(c)
}

// Refused is the reply of a command that was refused.
func Refused(err error) bson.RawValue {
	var refusal *value.Refusal
	if !errors.As(err, &refusal) {
		refusal = value.Refuse(value.BadValue, "%v", err)
	}
	reply := value.Document{
		{Key: "ok", Value: value.Double(0)},
		{Key: "errmsg", Value: value.String(refusal.Message)},
		{Key: "code", Value: value.Int(refusal.Code)},
		{Key: "codeName", Value: value.String(refusal.CodeName())},
	}
	if len(refusal.Labels) > 0 {
		reply = append(reply, value.Field{Key: "errorLabels", Value: value.Of(refusal.Labels)})
	}
	return reply.Close()
}

// Place names a collection.
type Place struct{ Database, Name string }

// Collections are those that were written to.
func (s *Store) Collections() (all []Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for namespace := range s.collections {
		database, name, _ := strings.Cut(namespace, ".")
		all = append(all, Place{database, name})
	}
	return all
}

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

// made is the command's collection, which is made if there is none.
func (c *command) made() *collection {
	known := c.collection()
	c.store.collections[c.namespace()] = known
	return known
}

func (c *command) drop() (value.Document, error) {
	delete(c.store.collections, c.namespace())
	return nil, nil
}

func (c *command) dropDatabase() (value.Document, error) {
	for namespace := range c.store.collections {
		if strings.HasPrefix(namespace, c.database+".") {
			delete(c.store.collections, namespace)
		}
	}
	return nil, nil
}

// create makes a plain collection.
func (c *command) create() (value.Document, error) {
	for _, kind := range []string{"viewOn", "validator", "capped", "timeseries", "clusteredIndex"} {
		if v := c.Get(kind); !value.IsMissing(v) && value.Truth(v) {
			return nil, value.Unsupported("a collection with %s", kind)
		}
	}
	c.made()
	return nil, nil
}

func noUser(*command) (value.Document, error) {
	return nil, value.Refuse(value.NoUser, "Authentication failed.")
}

func buildInfo(*command) (value.Document, error) {
	return value.Document{{Key: "version", Value: value.String("8.0.0-locktest")}}, nil
}

// WireVersion is that of MongoDB 8.0.
const WireVersion = 25
