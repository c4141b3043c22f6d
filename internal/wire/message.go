package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Kinds of messages.
const (
	opQuery = 2004 // the driver's first hello
	opMsg   = 2013
)

// The position of the document: after the header, and flags and more.
const (
	headerSize = 16
	msgPrefix  = headerSize + 4 // flags; then come sections
)

// Flags of an OP_MSG.
const (
	moreToCome = 1 << 1  // the sender wants no reply
	exhaust    = 1 << 16 // the sender would take many replies; it gets one
)

// Message is one message, with its header.
type Message []byte

// Read reads the next message of a connection.
func Read(r io.Reader) (Message, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(size[:])
	if n < headerSize || n > 64<<20 {
		return nil, fmt.Errorf("wire: a message of %d bytes", n)
	}
	m := make(Message, n)
	copy(m, size[:])
	_, err := io.ReadFull(r, m[4:])
	return m, err
}

func (m Message) kind() uint32 { return binary.LittleEndian.Uint32(m[12:]) }

// Unanswered reports whether the sender of a request wants no reply.
func (m Message) Unanswered() bool {
	return m.kind() == opMsg && len(m) >= msgPrefix && binary.LittleEndian.Uint32(m[headerSize:])&moreToCome != 0
}

// prefix is the part before the document.
func (m Message) prefix() int {
	if m.kind() != opQuery {
		return msgPrefix
	}
	return msgPrefix + bytes.IndexByte(m[msgPrefix:], 0) + 1 + 8 // the collection's name, skip and limit
}

// Sequence is a list of documents that stands beside a command's document.
type Sequence struct {
	Name      string
	Documents []bson.Raw
}

// Parts are the document of a message as it is, and the sequences of an OP_MSG. ok is false if the message is malformed.
func (m Message) Parts() (body bson.Raw, sequences []Sequence, ok bool) {
	if len(m) < msgPrefix || len(m) < m.prefix() {
		return nil, nil, false
	}
	rest := []byte(m[m.prefix():])
	if m.kind() != opMsg {
		body, _, ok = document(rest)
		return body, nil, ok
	}
	for len(rest) > 0 {
		section := rest[0]
		rest = rest[1:]
		switch section {
		case 0:
			body, rest, ok = document(rest)
		case 1:
			var s Sequence
			s, rest, ok = sequence(rest)
			sequences = append(sequences, s)
		default:
			ok = false
		}
		if !ok {
			return nil, nil, false
		}
	}
	return body, sequences, body != nil
}

// document reads the document at the front of b.
func document(b []byte) (doc bson.Raw, rest []byte, ok bool) {
	if len(b) < 5 {
		return nil, nil, false
	}
	size := binary.LittleEndian.Uint32(b)
	if uint64(size) > uint64(len(b)) || bson.Raw(b[:size]).Validate() != nil {
		return nil, nil, false
	}
	return b[:size:size], b[size:], true
}

// sequence reads the sequence at the front of b.
func sequence(b []byte) (s Sequence, rest []byte, ok bool) {
	if len(b) < 4 {
		return s, nil, false
	}
	size := binary.LittleEndian.Uint32(b)
	if size < 4 || uint64(size) > uint64(len(b)) {
		return s, nil, false
	}
	name, docs, ok := bytes.Cut(b[4:size], []byte{0})
	for s.Name = string(name); ok && len(docs) > 0; {
		var doc bson.Raw
		doc, docs, ok = document(docs)
		s.Documents = append(s.Documents, doc)
	}
	return s, b[size:], ok
}

// Body is the document of an OP_MSG as it is, without sequences, and the name of its
// first field, which is the command's. Anything else has none.
func (m Message) Body() (name string, body bson.Raw) {
	body, _, ok := m.Parts()
	if !ok || m.kind() != opMsg {
		return "", nil
	}
	first, err := body.IndexErr(0)
	if err != nil {
		return "", nil
	}
	return first.Key(), body
}

// With is an OP_MSG with another document.
func (m Message) With(doc any) ([]byte, error) {
	raw, ok := doc.(bson.Raw)
	if !ok {
		var err error
		if raw, err = bson.Marshal(doc); err != nil {
			return nil, err
		}
	}
	out := append(bytes.Clone(m[:msgPrefix]), 0) // the section's kind
	flags := binary.LittleEndian.Uint32(out[headerSize:])
	binary.LittleEndian.PutUint32(out[headerSize:], flags&^exhaust)
	out = append(out, raw...)
	binary.LittleEndian.PutUint32(out, uint32(len(out)))
	return out, nil
}

// Reply answers a request with this document.
func (m Message) Reply(doc any) ([]byte, error) {
	head := make(Message, msgPrefix)
	copy(head[8:12], m[4:8])
	binary.LittleEndian.PutUint32(head[12:], opMsg)
	return head.With(doc)
}
