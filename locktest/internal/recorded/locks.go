package recorded

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/doclock/doclock/internal/sent"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Locks draws documents with locks of all shapes, in all states, and malformed ones,
// for the commands of package sent.
type Locks struct {
	*rand.Rand
	tags []string // that the rules know

	tag, kind  string // of the command
	now        int64
	wild       bool
	live, held float64 // the share of such entries
}

// NewLocks draws the same documents for the same numbers.
func NewLocks(seed, n uint64, tags []string) *Locks {
	return &Locks{Rand: rand.New(rand.NewPCG(seed, n)), tags: tags}
}

// Now is the last document's time, after the epoch.
func (l *Locks) Now() int64 { return l.now }

func (l *Locks) chance(share float64) bool { return l.Float64() < share }

func choose[T any](l *Locks, all ...T) T { return all[l.IntN(len(all))] }

func shuffled(l *Locks, d bson.D) bson.D {
	d = slices.Clone(d)
	l.Shuffle(len(d), func(i, j int) { d[i], d[j] = d[j], d[i] })
	return d
}

// Document draws one for a command of this kind.
func (l *Locks) Document(kind, tag string) bson.D {
	l.kind, l.tag, l.now, l.wild = kind, tag, sent.Fence+int64(l.IntN(20_000)), l.chance(0.4)
	fields := l.users()
	if lock, there := l.lock(); there {
		fields = append(fields, e("lock", lock))
	}
	if l.chance(0.2) {
		fields = shuffled(l, fields)
	}
	return append(bson.D{e("_id", int32(1))}, fields...)
}

// users are the user's own fields; some have the library's names and texts.
func (l *Locks) users() (fields bson.D) {
	for _, f := range []struct {
		share float64
		name  string
		of    []any
	}{
		{0.7, "n", []any{int32(0), int32(7)}}, {0.3, "name", []any{"x", "$lock", "$$ROOT"}}, {0.2, "a b",
			[]any{bson.A{int32(1), bson.D{e("z", nil), e("lock", bson.D{e("tags", int32(1))})}}}},
		{0.2, "region", []any{"eu", nil, int32(1)}}, {0.05, "__doclockNow", []any{int32(1), "x"}}, {0.05, "__doclockDoc", []any{int32(1), bson.A{bson.D{e("now", int32(1))}}, nil}},
	} {
		if l.chance(f.share) {
			fields = append(fields, e(f.name, choose(l, f.of...)))
		}
	}
	return fields
}

func (l *Locks) lock() (lock any, there bool) {
	own := func() bson.D { return d("tags", d(l.tag, bson.A{l.own()})) }
	switch form := l.Float64(); {
	case form < 0.03:
		return nil, false
	case form < 0.04:
		return nil, true
	case form < 0.08:
		return choose[any](l, l.odd(), bson.A{d("tags", d(l.tag, bson.A{}))}, bson.A{own()}), true
	case form < 0.11:
		return choose[any](l, bson.D{}, d("brand", "x"), d("tags", bson.D{}), bson.D{e("fence", nil), e("tags", nil)}, d("fence", sent.Fence), d("tags", l.odd())), true
	case form < 0.13:
		return d("tags", d(choose(l, l.tags...), l.oddEntries())), true
	case form < 0.18 && l.wild:
		return bson.D{e("fence", l.oddNumber()), e("tags", l.entries())}, true
	case l.kind == "write and hand off, classic" && l.chance(0.5): // the own entry alone, as a compare-and-set needs it
		return append(bson.D{e("fence", sent.Fence), e("tags", d(l.tag, bson.A{l.own()}))}, l.done()...), true
	}
	fields := append(d("tags", l.entries()), l.done()...)
	if l.chance(0.95) {
		fields = append(fields, e("fence", l.fence()))
	}
	if l.chance(0.1) {
		fields = append(fields, e("brand", "x"))
	}
	if l.chance(0.8) {
		fields = append(fields, e("v", choose[any](l, int32(1), int32(1), int32(1), int32(1), int32(2), l.odd())))
	}
	return shuffled(l, fields), true
}

func (l *Locks) oddEntries() any {
	own := l.own()
	return choose[any](l, l.odd(), bson.A{nil}, bson.A{int32(5), "x"}, bson.A{bson.D{}}, bson.A{bson.A{}}, bson.A{d("id",
		bson.A{id(sent.ID)})}, d("id", bson.A{id(sent.ID)}), own, bson.A{bson.A{own}}, bson.A{own, l.odd()})
}

func (l *Locks) done() bson.D {
	if l.chance(0.6) {
		return nil
	}
	all := bson.A{}
	for range choose(l, 0, 1, 7, 8, 9) {
		all = append(all, l.uuid())
	}
	return d("done", choose[any](l, all, all, all, all, all, all, all, l.odd()))
}

func (l *Locks) fence() any {
	n := choose(l, 1, 200, sent.Fence, l.now, l.now+1000)
	if l.chance(0.9) {
		return n
	}
	return choose[any](l, float64(n), float64(n)+0.5, int32(n%100_000), l.odd())
}

// entries are those of all tags; some have unknown tags.
func (l *Locks) entries() bson.D {
	l.live, l.held = choose(l, 0, 0.1, 0.5, 1, 1), choose(l, 0, 0.3, 1)
	share := 0.92
	switch {
	case strings.HasPrefix(l.kind, "acquire"), l.kind == "try", l.kind == "standing", l.kind == "read":
		share = 0.35
	}
	wanted := l.chance(share)
	var names []string
	for _, tag := range l.tags {
		if l.chance(0.6) || tag == l.tag && wanted && l.chance(0.95) {
			names = append(names, tag)
		}
	}
	if l.chance(0.2) {
		others := []string{"other", "c-1"}
		for _, tag := range l.tags {
			others = append(others, strings.ToUpper(tag), strings.ToLower(tag), tag+"\n")
		}
		if name := choose(l, others...); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	l.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	tags := bson.D{}
	for _, name := range names {
		entries := bson.A{}
		for range choose(l, 0, 0, 1, 1, 1, 2, 3, 5) {
			entries = append(entries, l.entry(l.uuid(), l.chance(l.held), l.chance(l.live), nil))
		}
		if name == l.tag && wanted {
			entries = l.withOwn(entries)
		}
		switch {
		case l.chance(0.03):
			tags = append(tags, e(name, append(entries, l.odd())))
		case l.chance(0.03):
			tags = append(tags, e(name, choose(l, nil, l.odd())))
		default:
			tags = append(tags, e(name, entries))
		}
	}
	return tags
}

func (l *Locks) withOwn(entries bson.A) bson.A {
	all := bson.A{l.own()}
	if l.chance(0.5) {
		all = append(all, entries...)
		l.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	}
	if l.chance(0.02) {
		all = append(all, l.own())
	}
	if share := 0.1; strings.Contains(l.kind, "hand") {
		if strings.Contains(l.kind, "waiting") {
			share = 0.8
		}
		if l.chance(share) {
			all = slices.Insert(all, l.IntN(len(all)+1), any(l.entry(id(sent.Next), l.chance(0.2), l.chance(0.8), nil)))
		}
	}
	return all
}

func (l *Locks) own() bson.D {
	held := 0.95
	if strings.HasPrefix(l.kind, "confirm") {
		held = 0.25
	}
	var fence any
	if l.chance(0.95) {
		fence = sent.Fence
	}
	return l.entry(id(sent.ID), l.chance(held), l.chance(0.7), fence)
}

func (l *Locks) entry(id bson.Binary, held, live bool, fence any) bson.D {
	seq := sent.Fence - 1000 + int64(l.IntN(60))
	entry := bson.D{e("id", id), e("owner", choose(l, "h/1", "$x", "$$NOW", "a.b", "é")), e("seq", seq)}
	if fence == nil {
		fence = seq + 500
	}
	if held {
		entry = append(entry, e("fence", fence))
	}
	left := int64(-1 - l.IntN(9000))
	switch {
	case live:
		left = choose[int64](l, 1, 3000, 8000, 60_000) + int64(l.IntN(9000))
	case l.chance(0.2):
		left = 0
	}
	entry = append(entry, e("since", bson.DateTime(l.now-int64(l.IntN(9000)))), e("expires", bson.DateTime(l.now+left)))
	for _, field := range []bson.E{e("n", int64(1)), e("extra", d("x", int32(1))), e("key", l.uuid())} {
		if l.chance(0.1) {
			entry = append(entry, field)
		}
	}
	if damaged := map[bool]float64{true: 0.2, false: 0.05}[l.wild]; l.chance(damaged) {
		if i := l.IntN(len(entry)); l.chance(0.4) {
			entry = slices.Delete(entry, i, i+1)
		} else {
			entry[i].Value = l.odd()
		}
	}
	if l.chance(0.1) {
		return shuffled(l, entry)
	}
	return entry
}

func id(uuid [16]byte) bson.Binary { return bson.Binary{Subtype: 4, Data: uuid[:]} }

func (l *Locks) uuid() bson.Binary {
	data := make([]byte, 16)
	for i := range data {
		data[i] = byte(l.IntN(256))
	}
	return bson.Binary{Subtype: 4, Data: data}
}

// odd is a value that a lock doesn't have at that place.
func (l *Locks) odd() any {
	switch {
	case l.wild && l.chance(0.4):
		return l.oddNumber()
	case l.wild && l.chance(0.3):
		return choose[any](l, bson.Timestamp{T: 5, I: 1}, bson.MinKey{}, bson.MaxKey{}, bson.Regex{Pattern: "a", Options: "i"}, bson.ObjectID{1})
	}
	return choose[any](l, nil, "x", "", true, false, bson.D{}, bson.D{e("a", int32(1))}, bson.A{}, bson.A{int32(1)}, bson.DateTime(1), int32(5), int32(0), 1.5, int64(7))
}

func dec(text string) bson.Decimal128 {
	d, err := bson.ParseDecimal128(text)
	if err != nil {
		panic(err)
	}
	return d
}

func (l *Locks) oddNumber() any {
	return choose[any](l, math.NaN(), math.Inf(1), math.Inf(-1), 1e300, -1e300, math.Copysign(0, -1), -0.5, float64(1<<53), float64(1<<53-1), 0x1p63, 9.2e18, int32(math.MaxInt32), int32(-5),
		int64(math.MaxInt64), int64(math.MaxInt64-1), int64(math.MinInt64), int64(1<<53), int64(1<<53-1), int64(-1), dec("12.5"), dec("0"), dec("NaN"), dec("Infinity"),
		dec("9007199254740991.5"), dec("1E+6000"), dec("-1E-6000"))
}

// Library is the command of the library with a number, of each kind in turn, on a document
// for it. It has a time in the place of the server's, so that its answer is the same every
// time.
func Library(n int) (r Recording, err error) {
	tables := []relations.Rules{relations.Fair(), relations.MultiGranularity(), relations.Semaphore(3), relations.WritePreferring()}
	rules := tables[n%len(tables)]
	tag := rules.Tags()[n/len(tables)%len(rules)]
	commands, err := sent.Commands(rules, "owner", tag)
	if err != nil {
		return r, err
	}
	l := NewLocks(1, uint64(n), rules.Tags())
	command := commands[n%len(commands)]
	document, err := bson.Marshal(l.Document(command.Name, tag))
	if err != nil {
		return r, err
	}
	raw, err := bson.Marshal(stamp(command.Sent, bson.DateTime(l.now)))
	return Recording{Kind: "library", N: n, Documents: []bson.Raw{document}, Command: raw}, err
}

// stamp is a part of a command that has a time in the place of the server's.
func stamp(v any, now bson.DateTime) any {
	switch v := v.(type) {
	case string:
		if v == "$$NOW" {
			return now
		}
	case bson.A:
		all := bson.A{}
		for _, x := range v {
			all = append(all, stamp(x, now))
		}
		return all
	case bson.D:
		all, dates := bson.D{}, bson.D{}
		for _, f := range v {
			if f.Key != "$currentDate" {
				all = append(all, e(f.Key, stamp(f.Value, now)))
				continue
			}
			for _, path := range f.Value.(bson.D) {
				dates = append(dates, e(path.Key, now))
			}
		}
		if i := slices.IndexFunc(all, func(f bson.E) bool { return f.Key == "$set" }); i >= 0 && len(dates) > 0 {
			all[i].Value = append(all[i].Value.(bson.D), dates...)
		} else if len(dates) > 0 {
			all = append(all, e("$set", dates))
		}
		return all
	}
	return v
}
