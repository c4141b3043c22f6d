package engine

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// This file has the commands that write, as they are sent. One attempt is one
// message. The driver's own functions for writes give each one a transaction
// number, and send it again if its connection is lost. If the second message is
// refused, the driver returns the refusal, and says nothing of the first, which
// may be executed. RunCommand gives no number. The driver repeats it only after
// an error that proves that nothing was executed: docs/error-codes.md.

// change is a findAndModify, which changes one document at most. A part that is
// not the library's own is encoded already.
type change struct {
	query   any
	update  any
	delete  bool     // instead of an update
	sort    bson.Raw // which of several documents it changes: the first by these keys; nil for any
	filters []bson.Raw
	options assembly      // the elements of a caller's options
	comment bson.RawValue // none where the options have one

	shows  image
	fields bson.Raw // the projection of the image
}

// image is what the answer to a change shows of the document.
type image uint8

const (
	onlyID image = iota
	before
	after
)

var (
	majority = value(bson.D{{Key: "w", Value: "majority"}})
	justID   = value(bson.D{{Key: "_id", Value: 1}})
	yes, no  = value(true), value(false)
)

// send sends the change once a server can be reached. It returns the image, or
// nil if no document matched, and the clocks from before the send (rule 4).
func (e *Engine) send(ctx context.Context, c change) (img bson.Raw, sent Reading, err error) {
	if sent, err = e.begin(ctx); err != nil {
		return nil, sent, err
	}
	img, err = e.change(ctx, c)
	return img, sent, err
}

// change sends the change, and returns the image, or nil if no document matched.
func (e *Engine) change(ctx context.Context, c change) (bson.Raw, error) {
	reply, err := e.run(ctx, e.findAndModify(c))
	if noCollection(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	switch img := reply.Lookup("value"); img.Type {
	case bson.TypeEmbeddedDocument:
		return img.Document(), nil
	case bson.TypeNull:
		return nil, nil
	default:
		return nil, e.failed(fmt.Errorf("the reply to findAndModify has no image: %v", reply))
	}
}

func (e *Engine) findAndModify(c change) bson.Raw {
	query, action, what := encoded(c.query), "remove", yes
	if !c.delete {
		action, what = "update", encoded(c.update)
	}
	command := assemble(288+len(query.Value)+len(what.Value)+len(c.fields)+len(c.options)).add("findAndModify", e.name)
	if len(c.filters) > 0 {
		command = command.add("arrayFilters", arrayOfDocuments(c.filters))
	}
	if c.comment.Type != 0 {
		command = command.add("comment", c.comment)
	}
	command = append(command, c.options...)
	switch {
	case c.shows == onlyID:
		command = command.add("fields", justID)
	case c.fields != nil:
		command = command.add("fields", embedded(c.fields))
	}
	switch c.shows {
	case before:
		command = command.add("new", no)
	case after:
		command = command.add("new", yes)
	}
	command = command.add("query", query)
	if c.sort != nil {
		command = command.add("sort", embedded(c.sort))
	}
	return command.add(action, what).add("writeConcern", majority).end()
}

// statements sends several updates or deletes in one command. Each one is
// executed by itself, so the reply may count some beside an error. A message
// has room for the hundred of which the callers' batches consist.
func (e *Engine) statements(ctx context.Context, comment bson.RawValue, command string, statements ...bson.Raw) (reply bson.Raw, err error) {
	all := arrayOfDocuments(statements)
	return e.run(ctx, assemble(160+len(all.Value)).
		add(command, e.name).
		add("comment", comment).
		add("ordered", no).
		add("writeConcern", majority).
		add(command+"s", all).
		end())
}

// The statements.

func updateOf(query, update any) bson.Raw { return updating(query, update).end() }

func upsertOf(query, update any) bson.Raw { return updating(query, update).add("upsert", yes).end() }

func deleteOf(query any) bson.Raw {
	return assemble(0).add("q", encoded(query)).add("limit", value(1)).end()
}

func updating(query, update any) assembly {
	q, u := encoded(query), encoded(update)
	return assemble(len(q.Value)+len(u.Value)+16).add("q", q).add("u", u)
}

// counted is a number of a reply.
func counted(reply bson.Raw, key string) int64 {
	n, _ := reply.Lookup(key).AsInt64OK()
	return n
}

// AnsweredPartly reports that a command of several statements was answered, and
// that the server refused some of them.
func AnsweredPartly(err error) bool {
	var some mongo.WriteException
	return errors.As(err, &some) && len(some.WriteErrors) > 0 && some.WriteConcernError == nil
}

// run sends a command, and returns the server's reply. It may stand beside an
// error.
func (e *Engine) run(ctx context.Context, command bson.Raw) (reply bson.Raw, err error) {
	err = guard(func() (err error) {
		reply, err = e.coll.Database().RunCommand(ctx, command).Raw()
		return err
	})
	if err == nil {
		return reply, nil
	}
	var some mongo.WriteException
	if errors.As(err, &some) {
		reply = some.Raw
	}
	return reply, e.failed(err)
}

// encoded is a part of a command.
func encoded(part any) bson.RawValue {
	switch part := part.(type) {
	case bson.Raw:
		return embedded(part)
	case raw:
		return part.value()
	default:
		return value(part)
	}
}
