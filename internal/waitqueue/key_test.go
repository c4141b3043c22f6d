package waitqueue

import (
	"math"
	"testing"

	"github.com/doclock/doclock/internal/engine"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Two documents of one _id in two shards have two wait queues: what is released
// at one must not be handed over at the other.
func TestTheQueueOfAShardedDocument(t *testing.T) {
	pin := func(values ...any) engine.Pin {
		var pin engine.Pin
		for i, v := range values {
			kind, data, err := bson.MarshalValue(v)
			if err != nil {
				t.Fatal(err)
			}
			pin = append(pin, bson.E{Key: string(rune('a' + i)), Value: bson.RawValue{Type: kind, Value: data}})
		}
		return pin
	}
	for name, c := range map[string]struct {
		one, two engine.Pin
		same     bool
	}{
		"the same":         {pin(1, "north"), pin(1, "north"), true},
		"a great number":   {pin(float64(1 << 63)), pin(int64(math.MaxInt64)), false},
		"an equal number":  {pin(int32(1), 7.0), pin(int64(1), 7), true},
		"another shard":    {pin(1, "north"), pin(1, "south"), false},
		"another _id":      {pin(1, "north"), pin(2, "north"), false},
		"no shard key":     {pin(1), pin(1, ""), false},
		"another division": {pin("a", "bc"), pin("ab", "c"), false},
	} {
		if (Key(c.one) == Key(c.two)) != c.same {
			t.Errorf("%s: %q and %q", name, Key(c.one), Key(c.two))
		}
	}
}
