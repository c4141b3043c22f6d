package scenarios

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// never is a count that no caller has used.
const never = 1000

// values are what a caller passes to a call, and changes when the call has returned.
type values struct {
	scene       *scene
	filter      bson.D
	update      bson.D
	inc         bson.D
	overwritten chan struct{}
}

// values names the document, and counts in it. If the caller is to give up
// during the encoding, the first value causes that.
func (s *scene) values(giveUp context.CancelFunc, p point) *values {
	v := &values{scene: s, inc: bson.D{{Key: "count", Value: 1}}, overwritten: make(chan struct{})}
	var zero, one any = 0, 1
	if p.moment == encoding {
		zero, one = first{0, giveUp, v.overwritten}, first{1, giveUp, v.overwritten}
	}
	v.filter = bson.D{{Key: "count", Value: bson.D{{Key: "$gte", Value: zero}}}, {Key: "_id", Value: s.id}}
	v.update = bson.D{{Key: "$set", Value: bson.D{{Key: "given", Value: one}}}, {Key: "$inc", Value: v.inc}}
	return v
}

// overwrite uses the values for something else.
func (v *values) overwrite() {
	v.filter[1].Value = v.scene.decoyID()
	v.inc[0].Value = never
	close(v.overwritten)
}

// first is a number whose encoding makes the caller give up, and gives it time
// to continue.
type first struct {
	n           int
	giveUp      context.CancelFunc
	overwritten <-chan struct{}
}

// MarshalBSONValue implements bson.ValueMarshaler.
func (f first) MarshalBSONValue() (byte, []byte, error) {
	f.giveUp()
	select {
	case <-f.overwritten:
	case <-time.After(50 * time.Millisecond): // the caller itself encodes
	}
	kind, data, err := bson.MarshalValue(f.n)
	return byte(kind), data, err
}
