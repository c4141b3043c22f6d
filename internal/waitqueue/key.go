package waitqueue

import (
	"encoding/binary"
	"strings"

	"github.com/doclock/doclock/internal/engine"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Key names a document by its _id and its shard key: in a sharded collection,
// two documents may have one _id. Numbers that are equal to the server are equal
// here.
func Key(pin engine.Pin) string {
	var b strings.Builder
	for _, field := range pin {
		v := field.Value.(bson.RawValue)
		if n, number := v.AsInt64OK(); number {
			if f, float := v.DoubleOK(); !float || f == float64(n) && f < 1<<63 { // arm64 makes the greatest int64 of all above it
				v.Type, v.Value, _ = bson.MarshalValue(n) // an int64 always marshals
			}
		}
		b.Write(binary.LittleEndian.AppendUint32([]byte{byte(v.Type)}, uint32(len(v.Value))))
		b.Write(v.Value)
	}
	return b.String()
}
