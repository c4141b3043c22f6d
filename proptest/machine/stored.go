package machine

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/proptest/model"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// stored is the server's document in the model's form.
type stored struct {
	doc   *model.Document
	lock  bson.RawValue // the field as it is
	fence bson.Type     // of lock.fence
}

// parse reads a document strictly: anything that the model has no form for is
// an error. It compares a foreign lock by its bytes.
func (p *place) parse(raw bson.Raw) (s stored, err error) {
	elements, err := raw.Elements()
	if err != nil {
		return s, err
	}
	s.doc = &model.Document{}
	for _, e := range elements {
		switch v := e.Value(); e.Key() {
		case "_id":
		case "log":
			if err := v.Unmarshal(&s.doc.Log); err != nil {
				return s, err
			}
		case "lock":
			s.lock = bson.RawValue{Type: v.Type, Value: slices.Clone(v.Value)}
			switch {
			case v.Type == bson.TypeNull:
				s.doc.Field = model.Null
			case v.Equal(p.foreign):
				s.doc.Field = model.Foreign
			default:
				s.doc.Field = model.Ours
				if err := p.parseLock(&s, v); err != nil {
					return s, fmt.Errorf("lock %s: %w", v, err)
				}
			}
		default:
			return s, fmt.Errorf("the document has a field %s", e)
		}
	}
	return s, nil
}

func (p *place) parseLock(s *stored, v bson.RawValue) error {
	return fields(v, func(key string, v bson.RawValue) (err error) {
		switch key {
		case "fence":
			s.fence = v.Type
			s.doc.Lock.Fence, err = number(v)
		case "tags":
			if v.Type == bson.TypeNull {
				return nil
			}
			err = fields(v, func(tag string, v bson.RawValue) error {
				entries, err := p.parseEntries(v)
				s.doc.Lock.Tags = append(s.doc.Lock.Tags, model.Bucket{Tag: model.Tag(tag), Entries: entries})
				return err
			})
			slices.SortFunc(s.doc.Lock.Tags, func(a, b model.Bucket) int { return strings.Compare(string(a.Tag), string(b.Tag)) })
		case "done":
			err = elements(v, func(v bson.RawValue) error {
				id, err := p.parseID(v)
				s.doc.Lock.Done = append(s.doc.Lock.Done, id)
				return err
			})
		default:
			err = errors.New("not a field of a lock")
		}
		return err
	})
}

func (p *place) parseEntries(v bson.RawValue) (entries []model.Entry, err error) {
	if v.Type == bson.TypeNull { // an outside writer's null is an empty array
		return nil, nil
	}
	return entries, elements(v, func(v bson.RawValue) error {
		var e model.Entry
		err := fields(v, func(key string, v bson.RawValue) (err error) {
			switch key {
			case "id":
				e.ID, err = p.parseID(v)
			case "owner":
				err = v.Unmarshal(&e.Owner)
			case "seq":
				e.Seq, err = number(v)
			case "fence":
				if e.Fence, err = number(v); err == nil && e.Fence == 0 {
					err = errors.New("a waiting entry has a fence of 0, and should have none")
				}
			case "since":
				e.Since, err = date(v)
			case "expires":
				e.Expires, err = date(v)
			case "n":
				var n int64
				n, err = number(v)
				e.N = int(n)
			case "key":
				e.Key, err = p.parseID(v)
			case "detached":
				err = v.Unmarshal(&e.Detached)
			case "until":
				e.Until, err = date(v)
			default:
				err = errors.New("not a field of an entry")
			}
			return err
		})
		entries = append(entries, e)
		return err
	})
}

func (p *place) parseID(v bson.RawValue) (model.ID, error) {
	subtype, data, ok := v.BinaryOK()
	if !ok || subtype != bson.TypeBinaryUUID || len(data) != len(uuid.UUID{}) {
		return 0, fmt.Errorf("%s is no id", v)
	}
	id, known := p.ids[uuid.UUID(data)]
	switch {
	case known:
		return id, nil
	case p.leaving == 0:
		return 0, fmt.Errorf("unknown id %s", uuid.UUID(data))
	}
	remainder := -p.leaving // the model's name for it
	p.ids[uuid.UUID(data)], p.uuids[remainder] = remainder, uuid.UUID(data)
	return remainder, nil
}

func number(v bson.RawValue) (int64, error) {
	if d, ok := v.Decimal128OK(); ok {
		n, exp, err := d.BigInt()
		if err != nil || exp != 0 {
			return 0, fmt.Errorf("%s is no whole number", v)
		}
		return n.Int64(), nil
	}
	n, ok := v.AsInt64OK()
	if !ok && v.Type != bson.TypeNull {
		return 0, fmt.Errorf("%s is no number", v)
	}
	return n, nil
}

func date(v bson.RawValue) (int64, error) {
	ms, ok := v.DateTimeOK()
	if !ok && v.Type != bson.TypeNull {
		return 0, fmt.Errorf("%s is no date", v)
	}
	return ms, nil
}

func fields(v bson.RawValue, each func(key string, v bson.RawValue) error) error {
	doc, ok := v.DocumentOK()
	if !ok {
		return fmt.Errorf("%s is no document", v)
	}
	all, err := doc.Elements()
	for _, e := range all {
		if err := each(e.Key(), e.Value()); err != nil {
			return fmt.Errorf("%s: %w", e.Key(), err)
		}
	}
	return err
}

func elements(v bson.RawValue, each func(v bson.RawValue) error) error {
	array, ok := v.ArrayOK()
	if !ok {
		return fmt.Errorf("%s is no array", v)
	}
	all, err := array.Values()
	for i, v := range all {
		if err := each(v); err != nil {
			return fmt.Errorf("%d: %w", i, err)
		}
	}
	return err
}

// entry is the engine's entry in the model's form.
func (m *engineMachine) entry(e engine.Entry) model.Entry {
	out := model.Entry{ID: m.ids[e.ID], Owner: e.Owner, Seq: e.Seq, Fence: e.Fence, Since: e.Since.UnixMilli(), N: int(e.Writes)}
	if !e.Expires.IsZero() {
		out.Expires = e.Expires.UnixMilli()
	}
	if e.Key != uuid.Nil {
		out.Key = m.ids[e.Key]
	}
	out.Detached = e.Detached
	if !e.Until.IsZero() {
		out.Until = e.Until.UnixMilli()
	}
	return out
}
