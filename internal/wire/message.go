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
	opReply = 1
	opQuery = 2004 // the driver's first hello
	opMsg   = 2013
)

// The position of the document: after the header, and flags and more.
const (
	headerSize  = 16
	msgPrefix   = headerSize + 4 // flags; then come sections
	replyPrefix = headerSize + 20
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
	switch m.kind() {
	case opReply:
		return replyPrefix
	case opQuery: // flags, the collection's name, skip and limit
		return msgPrefix + bytes.IndexByte(m[msgPrefix:], 0) + 1 + 8
	default:
		return msgPrefix
	}
}

// Sequence is a list of documents that stands beside a command's document.
type Sequence struct {
	Name      string
	Documents []bson.Raw
}

// Parts are the document of a request or a reply as it is, and the sequences of an
// OP_MSG. ok is false if the message is malformed.
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

// Command is the document of a request or a reply. The sequences of an OP_MSG
// become arrays in it.
func (m Message) Command() (command bson.D, ok bool) {
	body, sequences, ok := m.Parts()
	if !ok || bson.Unmarshal(body, &command) != nil {
		return nil, false
	}
	for _, s := range sequences {
		array := make(bson.A, len(s.Documents))
		for i, raw := range s.Documents {
			var doc bson.D
			if bson.Unmarshal(raw, &doc) != nil {
				return nil, false
			}
			array[i] = doc
		}
		command = append(command, bson.E{Key: s.Name, Value: array})
	}
	return command, true
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
	if len(m) <= msgPrefix || m.kind() != opMsg || m[msgPrefix] != 0 {
		return "", nil
	}
	body = bson.Raw(m[msgPrefix+1:])
	if len(body) < 5 {
		return "", nil
	}
	size := binary.LittleEndian.Uint32(body)
	if size < 5 || uint64(size) > uint64(len(body)) {
		return "", nil
	}
	body = body[:size]
	first, err := body.IndexErr(0)
	if err != nil {
		return "", nil
	}
	return first.Key(), body
}

// With is the message with another document.
func (m Message) With(doc any) ([]byte, error) {
	raw, ok := doc.(bson.Raw)
	if !ok {
		var err error
		if raw, err = bson.Marshal(doc); err != nil {
			return nil, err
		}
	}
	out := bytes.Clone(m[:m.prefix()])
	if m.kind() == opMsg {
		flags := binary.LittleEndian.Uint32(out[headerSize:])
		binary.LittleEndian.PutUint32(out[headerSize:], flags&^exhaust)
		out = append(out, 0) // the section's kind
	}
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
