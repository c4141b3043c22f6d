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

// exhaust is the flag of a request for many replies; it gets one.
const exhaust = 1 << 16

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

// Command is the document of a request or a reply. The sequences of an OP_MSG
// become arrays in it.
func (m Message) Command() (bson.D, bool) {
	rest := []byte(m[m.prefix():])
	if m.kind() != opMsg {
		doc, _, ok := document(rest)
		return doc, ok
	}
	var command, sequences bson.D
	for len(rest) > 0 {
		section := rest[0]
		rest = rest[1:]
		switch section {
		case 0:
			doc, after, ok := document(rest)
			if !ok {
				return nil, false
			}
			command, rest = doc, after
		case 1:
			size := binary.LittleEndian.Uint32(rest)
			name, docs, _ := bytes.Cut(rest[4:size], []byte{0})
			rest = rest[size:]
			var array bson.A
			for len(docs) > 0 {
				doc, after, ok := document(docs)
				if !ok {
					return nil, false
				}
				array, docs = append(array, doc), after
			}
			sequences = append(sequences, bson.E{Key: string(name), Value: array})
		default:
			return nil, false
		}
	}
	return append(command, sequences...), command != nil
}

// document reads the document at the front of b.
func document(b []byte) (doc bson.D, rest []byte, ok bool) {
	if len(b) < 5 {
		return nil, nil, false
	}
	size := int(binary.LittleEndian.Uint32(b))
	if size > len(b) || bson.Unmarshal(b[:size], &doc) != nil {
		return nil, nil, false
	}
	return doc, b[size:], true
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
	raw, err := bson.Marshal(doc)
	if err != nil {
		return nil, err
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
