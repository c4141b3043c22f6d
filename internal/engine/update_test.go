package engine

import (
	"errors"
	"strings"
	"testing"

	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// setter is a struct that is a whole update.
type setter struct {
	Set map[string]int `bson:"$set"`
}

// marshaler and valueMarshaler encode themselves.
type marshaler struct{ doc any }

func (m marshaler) MarshalBSON() ([]byte, error) { return bson.Marshal(m.doc) }

type valueMarshaler struct{ v any }

func (m valueMarshaler) MarshalBSONValue() (byte, []byte, error) {
	kind, data, err := bson.MarshalValue(m.v)
	return byte(kind), data, err
}

// pusher is a struct with operators to which the library adds.
type pusher struct {
	Max  bson.M             `bson:"$max"`
	Push bson.M             `bson:"$push"`
	Pull struct{ List int } `bson:"$pull"`
}

type text string

func rawOf(doc any) bson.Raw {
	raw, err := bson.Marshal(doc)
	if err != nil {
		panic(err)
	}
	return raw
}

// Every form that the driver's UpdateOne takes sets x to 1, by a write and by
// a write-and-release.
func TestUpdateForms(t *testing.T) {
	t.Parallel()
	x := bson.M{"x": 1}
	set, stage := bson.M{"$set": x}, bson.D{{Key: "$set", Value: x}}
	w := emptyWorld(t)
	p := w.peer(relations.Exclusive())
	for name, update := range map[string]any{
		"D":                           bson.D{{Key: "$set", Value: bson.D{{Key: "x", Value: 1}}}},
		"M":                           set,
		"pointer to M":                &set,
		"map of maps":                 map[string]map[string]int{"$set": {"x": 1}},
		"Raw":                         rawOf(set),
		"bytes":                       []byte(rawOf(set)),
		"struct":                      setter{map[string]int{"x": 1}},
		"pointer to struct":           &setter{map[string]int{"x": 1}},
		"Marshaler":                   marshaler{set},
		"ValueMarshaler":              valueMarshaler{set},
		"Raw under $set":              bson.M{"$set": rawOf(x)},
		"struct under $set":           bson.M{"$set": struct{ X int }{1}},
		"struct under $max":           bson.M{"$max": struct{ X int }{1}},
		"pointer under $max":          bson.M{"$max": &struct{ X int }{1}},
		"struct with $push and $pull": pusher{bson.M{"x": 1}, bson.M{"log": "x"}, struct{ List int }{7}},
		"D under $max":                bson.M{"$max": bson.D{{Key: "x", Value: 1}}},
		"Raw under $max":              bson.M{"$max": rawOf(x)},
		"Raw with $max":               rawOf(bson.M{"$max": x}),
		"pointer to M under $max":     bson.M{"$max": &x},
		"Marshaler with $max":         marshaler{bson.M{"$max": x}},
		"$rename":                     bson.M{"$rename": bson.M{"one": "x"}},
		"$rename to a text":           bson.M{"$rename": map[string]text{"one": "x"}},
		"locker is not lock":          bson.M{"$set": bson.M{"locker": 1, "x": 1, "a.lock": 1}},
		"array filters of all":        bson.M{"$set": bson.M{"list.$[]": 1, "x": 1}},
		"pipeline A":                  bson.A{set},
		"pipeline of Ms":              []bson.M{set},
		"mongo.Pipeline":              mongo.Pipeline{stage},
		"array":                       [1]bson.D{stage},
		"pointer to pipeline":         &mongo.Pipeline{stage},
		"pipeline of structs":         []setter{{map[string]int{"x": 1}}},
		"pipeline of Raws":            []bson.Raw{rawOf(set)},
		"pipeline of any":             []any{rawOf(set), stage, &set, setter{map[string]int{"x": 1}}},
		"ValueMarshaler of an array":  valueMarshaler{bson.A{set}},
		"$addFields":                  bson.A{bson.M{"$addFields": x}},
		"$unset one":                  bson.A{set, bson.M{"$unset": "none"}},
		"$unset many":                 bson.A{set, bson.M{"$unset": bson.A{"none", "text"}}},
		"$unset strings":              bson.A{set, bson.M{"$unset": []string{"none", "text"}}},
		"pipeline beside a nice name": bson.A{bson.M{"$set": bson.M{"locker": "$lock", "x": 1}}},
	} {
		w.run(name, func(t *testing.T) {
			w.Insert(bson.E{Key: "_id", Value: name}, bson.E{Key: "one", Value: 1}, bson.E{Key: "list", Value: bson.A{0}})
			g := p.acquire(ann, "write", Granted)
			p.write(g, update, 1, Applied)
			w.fieldIs("x", int32(1))
			w.is(stored{fence: n0, tags: rows{"write": {{id: ann, seq: n0, fence: n0, expires: held, n: 1}}}})
			w.Change(bson.M{"$unset": bson.M{"x": 1}, "$set": bson.M{"one": 1}})
			p.finish(g, update, Applied)
			w.fieldIs("x", int32(1))
		})
	}
}

func TestUpdateRefused(t *testing.T) {
	t.Parallel()
	e := offline(t, relations.Exclusive())
	badRaw := bson.Raw{5, 0, 0, 0, 1}
	broken := marshaler{make(chan int)}
	brokenValue := valueMarshaler{make(chan int)}
	lock := bson.M{"lock": 1}
	for want, updates := range map[string][]any{
		`nil is not a document`:     {nil, bson.M{"$set": nil}, bson.A{nil}},
		`the update is empty`:       {bson.D{}, bson.M{}, rawOf(bson.D{}), struct{}{}, (bson.M)(nil)},
		`is not an update operator`: {bson.M{"x": 1}, rawOf(bson.M{"x": 1}), struct{ X int }{}, &struct{ X int }{}, bson.D{{Key: "$set", Value: bson.M{"x": 1}}, {Key: "x", Value: 1}}},
		`is not a document`:         {7, "x", bson.M{"$set": 7}, bson.M{"$unset": "x"}, rawOf(bson.M{"$unset": "x"}), bson.A{7}, []int{7}, valueMarshaler{7}, bson.M{"$set": valueMarshaler{7}}},
		`touches the lock field`: {
			bson.M{"$set": lock}, bson.M{"$set": bson.M{"lock.tags": 1}}, bson.M{"$set": bson.D{{Key: "x", Value: 1}, {Key: "lock.", Value: 1}}},
			rawOf(bson.M{"$unset": lock}), setter{map[string]int{"lock": 1}}, &setter{map[string]int{"lock.fence": 1}},
			bson.M{"$max": lock}, bson.M{"$push": bson.M{"lock.done": 1}}, bson.M{"$setOnInsert": lock}, bson.M{"$currentDate": lock},
			bson.M{"$set": struct{ Lock int }{}}, bson.M{"$set": &struct {
				X int `bson:"lock.x"`
			}{}},
			bson.M{"$rename": bson.M{"lock": "x"}}, bson.M{"$rename": bson.M{"x": "lock"}}, bson.M{"$rename": bson.M{"x": "lock.y"}},
			rawOf(bson.M{"$rename": bson.M{"x": "lock"}}), bson.M{"$rename": map[string]text{"x": "lock"}}, bson.M{"$rename": struct{ X string }{"lock"}},
			bson.A{bson.M{"$set": lock}}, bson.A{bson.M{"$set": bson.M{"x": 1}}, bson.M{"$addFields": bson.M{"lock.x": 1}}},
			bson.A{bson.M{"$unset": "lock"}}, bson.A{bson.M{"$unset": bson.A{"x", "lock.tags"}}}, []setter{{map[string]int{"lock": 1}}},
			valueMarshaler{bson.A{bson.M{"$unset": "lock"}}}, valueMarshaler{bson.M{"$unset": lock}}, marshaler{bson.M{"$unset": lock}},
		},
		`is positional`: {
			bson.M{"$set": bson.M{"items.$": 1}}, bson.M{"$inc": bson.M{"items.$.n": 1}}, bson.M{"$rename": bson.M{"x": "y.$"}}, bson.M{"$rename": bson.M{"items.$.x": "y"}},
		},
		`the new name of "x" is a`:                     {bson.M{"$rename": bson.M{"x": 7}}, bson.M{"$rename": bson.M{"x": nil}}, bson.M{"$rename": bson.M{"x": bson.A{"a", "b"}}}},
		`the pipeline is empty`:                        {bson.A{}, []bson.D{}, [0]bson.D{}, mongo.Pipeline{}},
		`a stage is one operator`:                      {bson.A{bson.D{}}, bson.A{bson.M{"$set": lock, "$unset": "x"}}},
		`would erase the lock; use $set`:               {bson.A{bson.M{"$replaceRoot": bson.M{}}}, bson.A{bson.M{"$replaceWith": "$x"}}, bson.A{bson.M{"$set": bson.M{"x": 1}}, bson.M{"$project": bson.M{}}}},
		`is not an update stage`:                       {bson.A{bson.M{"$match": bson.M{}}}, bson.A{bson.M{"x": 1}}},
		`give the name of a field`:                     {bson.A{bson.M{"$unset": 7}}, bson.A{bson.M{"$unset": bson.A{7}}}, bson.A{bson.M{"$unset": bson.M{"x": 1}}}},
		`no encoder found`:                             {broken, brokenValue, bson.M{"$set": broken}, bson.M{"$set": brokenValue}, bson.A{broken}, bson.A{bson.M{"$unset": make(chan int)}}, struct{ X chan int }{make(chan int)}},
		`not enough bytes`:                             {bson.M{"$set": badRaw[:3]}, []byte(badRaw[:3])},
		`operator: a replacement would erase the lock`: {bson.M{"text": "x"}},
	} {
		for _, update := range updates {
			if u, err := e.ParseUpdate(update); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%#v:\n%v, %v\nwant %q", update, u, err, want)
			}
		}
	}
}

func TestUpdateOptionsRefused(t *testing.T) {
	t.Parallel()
	e := offline(t, relations.Exclusive())
	set, pipeline, none := bson.M{"$set": bson.M{"x.$[i]": 1}}, bson.A{bson.M{"$set": bson.M{"n": 1}}}, make(chan int)
	parse := func(update any, opt options.Lister[options.UpdateOneOptions]) error {
		_, err := e.ParseUpdate(update, opt)
		return err
	}
	for want, refused := range map[string][]error{
		"upsert would insert a second document": {parse(set, options.UpdateOne().SetUpsert(true))},
		"a sort has no meaning here":            {parse(set, options.UpdateOne().SetSort(bson.M{"n": 1}))},
		"odd option":                            {parse(set, lister{errors.New("odd option")})},
		"a pipeline takes no array filters":     {parse(pipeline, options.UpdateOne().SetArrayFilters([]any{bson.M{"i": 1}}))},
		"no encoder found for chan int": {
			parse(set, options.UpdateOne().SetArrayFilters([]any{bson.M{"i": none}})), parse(set, options.UpdateOne().SetComment(none)),
			parse(set, options.UpdateOne().SetHint(bson.M{"x": none})), parse(set, options.UpdateOne().SetLet(bson.M{"x": none})),
		},
		mongo.ErrMapForOrderedArgument{ParamName: "hint"}.Error(): {parse(set, options.UpdateOne().SetHint(bson.M{"a": 1, "b": 1})), parse(set, options.UpdateOne().SetHint(&bson.M{"a": 1, "b": 1}))},
	} {
		for i, err := range refused {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q, %d: %v", want, i, err)
			}
		}
	}
	if err := parse(set, options.UpdateOne().SetHint(bson.M{"a": 1})); err != nil { // a map of one field has an order
		t.Error(err)
	}
}

type lister struct{ err error }

func (l lister) List() []func(*options.UpdateOneOptions) error {
	return []func(*options.UpdateOneOptions) error{func(*options.UpdateOneOptions) error { return l.err }}
}

// A nil *UpdateOneOptionsBuilder is no option, as for the driver's UpdateOne, and so is a nil setter.
func TestUpdateWithNilOptions(t *testing.T) {
	t.Parallel()
	p := newWorld(t, hello()).peer(relations.Exclusive())
	none := (*options.UpdateOneOptionsBuilder)(nil)
	empty := &options.UpdateOneOptionsBuilder{Opts: []func(*options.UpdateOneOptions) error{nil}}
	if _, err := p.ParseUpdate(bson.M{"$set": bson.M{"a": 1}}, none, empty); err != nil {
		t.Error(err)
	}
}
