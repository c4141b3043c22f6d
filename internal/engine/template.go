package engine

import (
	"bytes"
	"fmt"
	"time"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// A template is a part of a command, marshalled once. Only the entry's id and,
// in tests that set the time by hand, the time change from one command to the
// next. Both have a fixed width in BSON. So filling a template in is a copy and
// a few overwritten bytes, without reflection.
type template struct {
	kind bson.Type
	data []byte
	ids  []int // offsets of the id
	nows []int // offsets of the time; empty where the server's clock is used
}

// The placeholders are the values that a template is marshalled with. They are
// random, so that nothing else in a command is mistaken for one.
var (
	idPlaceholder  = uuid.New()
	nowPlaceholder = time.UnixMilli(int64(uuid.New().ID()) << 16).UTC()
)

// newTemplate marshals v, a document or an array, with the library's own
// encoding: the caller's registry and BSON options can't alter it.
func newTemplate(v any) (template, error) {
	kind, data, err := bson.MarshalValue(v)
	if err != nil {
		return template{}, fmt.Errorf("marshal a command of the library's own: %w", err)
	}
	_, at, err := bson.MarshalValue(nowPlaceholder)
	if err != nil {
		return template{}, fmt.Errorf("marshal a time: %w", err)
	}
	return template{kind: kind, data: data, ids: offsets(data, idPlaceholder[:]), nows: offsets(data, at)}, nil
}

func offsets(data, of []byte) []int {
	var found []int
	for from := 0; ; {
		i := bytes.Index(data[from:], of)
		if i < 0 {
			return found
		}
		found = append(found, from+i)
		from += i + len(of)
	}
}

// fill returns a copy for one command.
func (t template) fill(id uuid.UUID, now time.Time) raw {
	data := bytes.Clone(t.data)
	for _, i := range t.ids {
		copy(data[i:], id[:])
	}
	if len(t.nows) > 0 {
		_, at, _ := bson.MarshalValue(now) // a time.Time always marshals
		for _, i := range t.nows {
			copy(data[i:], at)
		}
	}
	return raw{t.kind, data}
}

// document is the filled template where the driver wants a document.
func (r raw) document() bson.Raw { return r.data }

// stage is the one stage of a filled template that is a pipeline.
func (r raw) stage() bson.Raw { return bson.RawArray(r.data).Index(0).Document() }

// value is the filled template as one value of a classic update.
func (r raw) value() bson.RawValue { return bson.RawValue{Type: r.kind, Value: r.data} }

// raw is a marshalled document or array that the driver takes unchanged.
type raw struct {
	kind bson.Type
	data []byte
}

// MarshalBSONValue implements bson.ValueMarshaler.
func (r raw) MarshalBSONValue() (byte, []byte, error) { return byte(r.kind), r.data, nil }
