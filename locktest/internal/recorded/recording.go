package recorded

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Recording is a command, what its collection had before, and what came of it.
type Recording struct {
	Kind      string
	N         int
	Documents []bson.Raw
	Unique    bson.Raw `bson:",omitempty"` // the keys of an index
	Command   bson.Raw
	Outcome   `bson:",inline"`
}

// Outcome is what a server answered, and what the collection has afterwards, by
// _id. A refusal has a message. Older recordings have no code of a refused write.
type Outcome struct {
	Reply    bson.Raw `bson:",omitempty"`
	Code     int32    `bson:",omitempty"`
	CodeName string   `bson:"codeName,omitempty"`
	Message  string   `bson:",omitempty"`
	Stored   []bson.Raw
}

// Server sends a command and returns the reply, also that of a refusal.
type Server func(command bson.D) (bson.Raw, error)

// ErrBefore is the error of a recording whose documents or index a server refuses.
var ErrBefore = errors.New("the server refuses what has to be there before")

// On runs the command on a collection that is empty.
func (r Recording) On(send Server, name string) (o Outcome, err error) {
	var before []bson.D
	if len(r.Documents) > 0 {
		before = append(before, bson.D{{Key: "insert", Value: name}, {Key: "documents", Value: r.Documents}})
	}
	if r.Unique != nil {
		index := bson.D{{Key: "key", Value: r.Unique}, {Key: "name", Value: "unique"}, {Key: "unique", Value: true}}
		before = append(before, bson.D{{Key: "createIndexes", Value: name}, {Key: "indexes", Value: bson.A{index}}})
	}
	for _, command := range before {
		if o, err = answered(send, command); err == nil && o.Message != "" {
			err = fmt.Errorf("%s %d: %w: %s", r.Kind, r.N, ErrBefore, o.Message)
		}
		if err != nil {
			return o, err
		}
	}
	var command bson.D
	if err := bson.Unmarshal(r.Command, &command); err != nil {
		return o, err
	}
	if command[0].Value == "c" || command[0].Value == "documents" {
		command[0].Value = name
	}
	if o, err = answered(send, command); err != nil {
		return o, err
	}
	stored, err := answered(send, bson.D{{Key: "find", Value: name}, {Key: "sort", Value: bson.D{{Key: "_id", Value: 1}}}})
	if err != nil {
		return o, err
	}
	elements, err := stored.Reply.Lookup("firstBatch").Array().Values()
	for _, d := range elements {
		o.Stored = append(o.Stored, d.Document())
	}
	return o, err
}

// answered is the part of a reply that is recorded.
func answered(send Server, command bson.D) (o Outcome, err error) {
	raw, err := send(command)
	if err != nil {
		return o, err
	}
	if wrong, ok := raw.Lookup("writeErrors").ArrayOK(); ok {
		raw = wrong.Index(0).Document()
	}
	if message, ok := raw.Lookup("errmsg").StringValueOK(); ok {
		o.Code, _ = raw.Lookup("code").Int32OK()
		o.CodeName, _ = raw.Lookup("codeName").StringValueOK()
		o.Message = message
		return o, nil
	}
	if cursor, ok := raw.Lookup("cursor").DocumentOK(); ok {
		raw = cursor
	}
	elements, err := raw.Elements()
	kept := bson.D{}
	for _, e := range elements {
		switch e.Key() {
		case "ok", "id", "ns", "operationTime", "$clusterTime", "electionId", "opTime":
		default:
			kept = append(kept, bson.E{Key: e.Key(), Value: e.Value()})
		}
	}
	if err == nil {
		o.Reply, err = bson.Marshal(kept)
	}
	return o, err
}

// ReadFile reads recordings, or operators, of which each is a line.
func ReadFile[T any](path string) (all []T, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(data) {
		var one T
		if err := bson.UnmarshalExtJSON(line, true, &one); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, len(all)+1, err)
		}
		all = append(all, one)
	}
	return all, nil
}

// Write writes one line.
func Write(to io.Writer, one any) error {
	line, err := bson.MarshalExtJSON(one, true, false)
	if err != nil {
		return err
	}
	_, err = to.Write(append(bytes.TrimSpace(line), '\n'))
	return err
}
