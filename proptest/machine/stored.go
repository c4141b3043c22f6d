package machine

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/proptest/model"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// entry is an entry in the form that is stored.
type entry struct {
	ID       id            `bson:"id"`
	Owner    string        `bson:"owner"`
	Seq      number        `bson:"seq"`
	Fence    number        `bson:"fence,omitempty"`
	Since    bson.DateTime `bson:"since"`
	Expires  bson.DateTime `bson:"expires,omitempty"`
	N        number        `bson:"n,omitempty"`
	Key      id            `bson:"key,omitempty"`
	Detached bool          `bson:"detached,omitempty"`
	Until    bson.DateTime `bson:"until,omitempty"`
	Other    bson.M        `bson:",inline"` // what the model has no form for
}

// id is a UUID in BSON.
type id uuid.UUID

func (i id) IsZero() bool { return i == id{} }

func (i id) MarshalBSONValue() (byte, []byte, error) {
	kind, data, err := bson.MarshalValue(bson.Binary{Subtype: bson.TypeBinaryUUID, Data: i[:]})
	return byte(kind), data, err
}

func (i *id) UnmarshalBSONValue(kind byte, value []byte) error {
	v := bson.RawValue{Type: bson.Type(kind), Value: value}
	subtype, data, ok := v.BinaryOK()
	if !ok || subtype != bson.TypeBinaryUUID || len(data) != len(i) {
		return fmt.Errorf("%s is no id", v)
	}
	*i = id(data)
	return nil
}

// number is any of BSON's whole numbers. An entry has no 0: it leaves the field out.
type number int64

func (n *number) UnmarshalBSONValue(kind byte, value []byte) error {
	v, err := whole(bson.RawValue{Type: bson.Type(kind), Value: value})
	if *n = number(v); err == nil && v == 0 {
		err = fmt.Errorf("an entry has a 0")
	}
	return err
}

// whole is a whole number, or 0 for null.
func whole(v bson.RawValue) (int64, error) {
	if d, ok := v.Decimal128OK(); ok {
		n, exp, err := d.BigInt()
		if err != nil || exp != 0 {
			return 0, fmt.Errorf("%s is no whole number", v)
		}
		return n.Int64(), nil
	}
	n, ok := v.AsInt64OK()
	if !ok && v.Type != bson.TypeNull && !v.IsZero() {
		return 0, fmt.Errorf("%s is no number", v)
	}
	return n, nil
}

// parse reads a document strictly, and the type of its lock.fence: anything that
// the model has no form for is an error. It compares a foreign lock by its bytes.
func (p *place) parse(raw bson.Raw) (doc *model.Document, fence bson.Type, err error) {
	var fields struct {
		ID    string         `bson:"_id"`
		Log   []model.Update `bson:"log"`
		Lock  bson.RawValue  `bson:"lock"`
		Other bson.M         `bson:",inline"`
	}
	if err := bson.Unmarshal(raw, &fields); err != nil || len(fields.Other) > 0 {
		return nil, 0, fmt.Errorf("unknown fields %v: %w", fields.Other, err)
	}
	doc = &model.Document{Log: fields.Log}
	switch v := fields.Lock; {
	case v.IsZero():
	case v.Type == bson.TypeNull:
		doc.Field = model.Null
	case v.Equal(p.foreign):
		doc.Field = model.Foreign
	default:
		doc.Field = model.Ours
		fence, err = p.parseLock(v, &doc.Lock)
	}
	return doc, fence, err
}

// parseLock also returns the type of lock.fence. An outside writer's null is an empty array.
func (p *place) parseLock(v bson.RawValue, lock *model.Lock) (bson.Type, error) {
	var fields struct {
		Fence bson.RawValue      `bson:"fence"`
		Tags  map[string][]entry `bson:"tags"`
		Done  []id               `bson:"done"`
		Other bson.M             `bson:",inline"`
	}
	err := v.Unmarshal(&fields)
	if err != nil || len(fields.Other) > 0 {
		return 0, fmt.Errorf("lock %s: unknown fields %v: %w", v, fields.Other, err)
	}
	for _, tag := range slices.Sorted(maps.Keys(fields.Tags)) {
		b := model.Bucket{Tag: model.Tag(tag)}
		for _, e := range fields.Tags[tag] {
			if len(e.Other) > 0 {
				return 0, fmt.Errorf("entry %v", e)
			}
			b.Entries = append(b.Entries, p.entry(e))
		}
		lock.Tags = append(lock.Tags, b)
	}
	for _, i := range fields.Done {
		lock.Done = append(lock.Done, p.known(uuid.UUID(i)))
	}
	lock.Fence, err = whole(fields.Fence)
	return fields.Fence.Type, err
}

// known is the model's name of a stored id. A release may have made one.
func (p *place) known(i uuid.UUID) model.ID {
	n, known := p.ids[i]
	if !known && p.leaving == 0 {
		p.t.Fatalf("unknown id %s", i)
	}
	if !known {
		n = -p.leaving
		p.ids[i], p.uuids[n] = n, i
	}
	return n
}

// entry is the stored entry in the model's form.
func (p *place) entry(e entry) model.Entry {
	return model.Entry{
		ID: p.known(uuid.UUID(e.ID)), Owner: e.Owner, Seq: int64(e.Seq), Fence: int64(e.Fence), Since: int64(e.Since), Expires: int64(e.Expires),
		N: int(e.N), Key: p.known(uuid.UUID(e.Key)), Detached: e.Detached, Until: int64(e.Until),
	}
}

// stores is the model's entry in the stored form.
func (p *place) stores(e model.Entry) entry {
	return entry{
		ID: id(p.uuids[e.ID]), Owner: e.Owner, Seq: number(e.Seq), Fence: number(e.Fence), Since: bson.DateTime(e.Since), Expires: bson.DateTime(e.Expires),
		N: number(e.N), Key: id(p.uuids[e.Key]), Detached: e.Detached, Until: bson.DateTime(e.Until),
	}
}

// shown is the engine's entry in the model's form.
func (p *place) shown(e engine.Entry) model.Entry {
	return model.Entry{
		ID: p.known(e.ID), Owner: e.Owner, Seq: e.Seq, Fence: e.Fence, Since: millis(e.Since), Expires: millis(e.Expires),
		N: int(e.Writes), Key: p.known(e.Key), Detached: e.Detached, Until: millis(e.Until),
	}
}

// millis is 0 for no time.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
