package engine

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// This file has the reads, as they are sent. The driver's own functions send a read
// again without a pause, for as long as its context lasts: a server in trouble gets
// thousands of them a second. RunCommand sends it once, and whoever sends commands
// again does so with pauses. It tells the server the time that the context leaves.

// Read concerns. None that a collection has counts.
var (
	majorityRead     = concern("majority")
	linearizableRead = concern("linearizable")
	localRead        = concern("local")
)

func concern(level string) bson.RawValue { return value(bson.D{{Key: "level", Value: level}}) }

// search is a find.
type search struct {
	comment bson.RawValue
	filter  any
	fields  bson.Raw
	batch   int32 // the most documents of each answer; 0 means that there is one answer
	limit   int   // the most documents of the only answer; 0 means one
	sort    bson.Raw
}

// find sends a find, and returns its documents, which are read with this concern.
func (e *Engine) find(ctx context.Context, level bson.RawValue, s search) (*documents, error) {
	filter := encoded(s.filter)
	command := assemble(160+len(filter.Value)+len(s.fields)).add("find", e.name)
	if s.batch > 0 {
		command = command.add("batchSize", value(s.batch))
	}
	command = command.add("comment", s.comment).add("filter", filter)
	if s.batch == 0 {
		command = command.add("limit", long(int64(max(s.limit, 1))))
	}
	command = command.add("projection", embedded(s.fields))
	if s.batch == 0 {
		command = command.add("singleBatch", yes)
	}
	command = command.add("readConcern", level)
	if s.sort != nil {
		command = command.add("sort", embedded(s.sort))
	}
	return e.cursor(ctx, command.end(), s.comment, s.batch)
}

// cursor sends a read whose answer is a cursor.
func (e *Engine) cursor(ctx context.Context, command bson.Raw, comment bson.RawValue, batch int32) (*documents, error) {
	var cursor *mongo.Cursor
	err := guard(func() (err error) {
		cursor, err = e.coll.Database().RunCommandCursor(ctx, command)
		return err
	})
	if err != nil {
		return nil, err
	}
	cursor.SetComment(comment)
	cursor.SetBatchSize(batch)
	return &documents{cursor}, nil
}

// visit sends a find, and calls see with each document.
func (e *Engine) visit(ctx context.Context, level bson.RawValue, s search, see func(bson.Raw)) error {
	found, err := e.find(ctx, level, s)
	if err == nil {
		err = found.each(ctx, func(doc bson.Raw) bool { see(doc); return true })
	}
	if noCollection(err) {
		return nil
	}
	return e.failed(err)
}

// documents are what a read has found.
type documents struct{ *mongo.Cursor }

// each calls see with one document after the other, until it returns false.
func (d *documents) each(ctx context.Context, see func(bson.Raw) bool) error {
	defer d.close(ctx)
	for {
		more := false
		err := guard(func() error {
			more = d.Next(ctx)
			return d.Err()
		})
		if err != nil || !more || !see(d.Current) {
			return err
		}
	}
}

// close closes the cursor on the server too, also where ctx has ended: the server
// would keep it for minutes.
func (d *documents) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = guard(func() error { return d.Close(ctx) })
}
