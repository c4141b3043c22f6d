package multilock_test

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"pgregory.net/rapid"
)

// fault is what an error must be, and the words in it that say what is wrong
// and what would be right.
type fault struct {
	is   error
	says []string
}

func (f fault) check(t testing.TB, name string, err error) {
	t.Helper()
	if !errors.Is(err, f.is) {
		t.Errorf("%s: got error %v, want one that is %q", name, err, f.is)
		return
	}
	for _, word := range f.says {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%s: the error doesn't say %q: %v", name, word, err)
		}
	}
}

func TestNewRefusesBadOptions(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	const below = 999 * time.Millisecond
	for name, bad := range map[string]struct {
		option doclock.Option
		says   []string
	}{
		"TTL":                      {doclock.TTL(below), []string{"TTL", "999ms", "1s"}},
		"TTL 0":                    {doclock.TTL(0), []string{"TTL", "0s", "1s"}},
		"TTL below 0":              {doclock.TTL(-time.Hour), []string{"TTL", "1s"}},
		"TagTTL":                   {doclock.TagTTL("read", below), []string{"TagTTL", `"read"`, "999ms", "1s"}},
		"TagTTL of an unknown tag": {doclock.TagTTL("skim", time.Second), []string{"TagTTL", `"skim"`, "read, write"}},
		"Tolerance":                {doclock.ClockTolerance(-1), []string{"Tolerance", "-1ns", "0s"}},
		"AttemptTimeout 0":         {doclock.AttemptTimeout(0), []string{"AttemptTimeout", "0s", "1ms"}},
		"AttemptTimeout below 0":   {doclock.AttemptTimeout(-time.Second), []string{"AttemptTimeout", "1ms"}},
		"TTL without end":          {doclock.TTL(math.MaxInt64), []string{"TTL", "2562047h", "720h0m0s"}},
		"TTL above":                {doclock.TTL(doclock.MaxTTL + 1), []string{"TTL", "720h0m0s"}},
		"TagTTL above":             {doclock.TagTTL("read", doclock.MaxTTL+1), []string{"TagTTL", `"read"`, "720h0m0s"}},
		"Tolerance above":          {doclock.ClockTolerance(doclock.MaxClockTolerance + 1), []string{"Tolerance", "1h0m0s"}},
		"AttemptTimeout above":     {doclock.AttemptTimeout(doclock.MaxAttemptTimeout + 1), []string{"AttemptTimeout", "1m0s"}},
		"nil":                      {nil, []string{"option 0", "nil"}},
		"no Owner":                 {doclock.Owner(""), []string{"Owner", "0 bytes", "256"}},
		"Owner":                    {doclock.Owner(strings.Repeat("x", 257)), []string{"Owner", "257 bytes", "256"}},
		"Owner with NUL":           {doclock.Owner("a\x00b"), []string{"Owner", "NUL"}},
		"no Field":                 {doclock.Field(""), []string{"Field", "top-level"}},
		"Field below another":      {doclock.Field("a.b"), []string{"Field", `"a.b"`, "dot"}},
		"Field with a dollar sign": {doclock.Field("$lock"), []string{"Field", "dollar"}},
		"Field _id":                {doclock.Field("_id"), []string{"Field", "_id"}},
		"Field with NUL":           {doclock.Field("a\x00b"), []string{"Field"}},
		"Field not in UTF-8":       {doclock.Field("\xff"), []string{"Field"}},
		"Field of the library's":   {doclock.Field("__doclockNow"), []string{"Field"}},
		"ShareInProcess":           {doclock.ShareInProcess("read", "write"), []string{`holders of "write" can't share an entry: it respects itself`}},
		"ShareInProcess, no tag":   {doclock.ShareInProcess("reed"), []string{`ShareInProcess is for "reed", which is not a tag of the rules (tags: read, write)`}},
		"no ShardKey":              {doclock.ShardKey("region", ""), []string{"ShardKey", `""`}},
		"ShardKey":                 {doclock.ShardKey("$region"), []string{"ShardKey", `"$region"`}},
		"ShardKey twice":           {doclock.ShardKey("region", "region"), []string{"ShardKey", `"region"`, "once"}},
		"ShardKey in another":      {doclock.ShardKey("region.city", "region"), []string{"ShardKey", `"region"`, "within"}},
		"ShardKey, empty part":     {doclock.ShardKey("region..city"), []string{"ShardKey", `"region..city"`}},
		"ShardKey in the lock":     {doclock.ShardKey("lock.write"), []string{"ShardKey", `"lock.write"`, "must not"}},
		"ShardKey is the lock":     {doclock.ShardKey("region", "lock"), []string{"ShardKey", `"lock"`, "must not"}},
	} {
		l, err := multilock.New(coll, relations.WritePreferring(), bad.option)
		fault{doclock.ErrInvalidArgument, bad.says}.check(t, name, err)
		if l != nil {
			t.Errorf("%s: there is a Locker", name)
		}
	}
	if sent := w.Take(); len(sent) != 0 {
		t.Errorf("New sent %v", sent)
	}
}

// The least and the greatest durations that New accepts.
func TestNewTakesTheBounds(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for name, opts := range map[string][]doclock.Option{
		"least": {doclock.TTL(doclock.MinTTL), doclock.TagTTL("read", doclock.MinTTL), doclock.ClockTolerance(0),
			doclock.AttemptTimeout(time.Millisecond), doclock.Owner("x"), doclock.Field("x"), doclock.ShardKey("a.b")},
		"greatest": {doclock.TTL(doclock.MaxTTL), doclock.TagTTL("read", doclock.MaxTTL), doclock.ClockTolerance(doclock.MaxClockTolerance),
			doclock.AttemptTimeout(doclock.MaxAttemptTimeout), doclock.Owner(strings.Repeat("x", 256))},
	} {
		if _, err := multilock.New(p.coll, relations.WritePreferring(), opts...); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A machine and a program may have names that no Owner can have.
func TestTheDefaultOwnerIsAnOwner(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, program := range []string{"worker", "", "w\xff", strings.Repeat("ä", 256)} {
		if _, err := multilock.New(p.coll, relations.Fair(), doclock.Owner(multilock.OwnerOf("host", program))); err != nil {
			t.Errorf("%q: %v", program, err)
		}
	}
}

func TestNewReportsAllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	_, err := multilock.New(p.coll, relations.WritePreferring(), doclock.TTL(1), doclock.Owner(""), doclock.Field("a.b"),
		doclock.TagTTL("skim", time.Second), doclock.TagTTL("scan", time.Second), nil)
	fault{doclock.ErrInvalidArgument, []string{"TTL", "Owner", "Field", "option 5 is nil", `"skim"`, `"scan"`}}.check(t, "New", err)
}

func TestNewRefusesNoCollectionAndBadRules(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	_, err := multilock.New(nil, relations.Fair())
	fault{doclock.ErrInvalidArgument, []string{"collection", "nil"}}.check(t, "no collection", err)
	for name, rules := range map[string]relations.Rules{
		"nil": nil, "empty": {}, "a bad name": {"a.b": nil}, "a tag that isn't there": {"a": {"b": {Kind: relations.Cooperative}}}, "no slots": relations.Semaphore(0),
	} {
		_, err := multilock.New(p.coll, rules)
		fault{relations.ErrInvalidRules, nil}.check(t, name, err)
	}
}

// For bad arguments of an acquire the error says what would be right. It is refused
// after Close, and in an ended context, too. Nothing is sent, and nothing is changed.
func TestAFunctionIsNeeded(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	l := p.locker(coll, relations.Exclusive())
	leads, err := writelock.New(coll)
	must(t, err)
	want := fault{doclock.ErrInvalidArgument, []string{"not acquired", "function"}}
	want.check(t, "Do", l.Do(t.Context(), flowers, "write", nil))
	want.check(t, "DoAll", multilock.DoAll(t.Context(), nil, l.Want(flowers, "write")))
	want.check(t, "Lead", leads.Lead(t.Context(), flowers, nil))
	if sent := w.Take(); len(sent) > 0 {
		t.Errorf("sent %q", sent)
	}
}

func TestAcquireRefusesBadInput(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	plain, upserting := p.locker(coll, relations.Fair()), p.locker(coll, relations.Fair(), doclock.Upsert())
	sharing := p.locker(coll, relations.WritePreferring(), doclock.ShareInProcess("read"))
	closed := p.locker(coll, relations.Fair())
	p.rest(closed)
	session, err := coll.Database().Client().StartSession()
	must(t, err)
	defer session.EndSession(context.Background())
	must(t, session.StartTransaction())
	ended, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	cancel(why)
	inFilter := fault{doclock.ErrInvalidArgument, []string{"_id"}}
	noDocument := fault{doclock.ErrInvalidArgument, []string{"bson.M"}}
	pinned := fault{doclock.ErrInvalidArgument, []string{"Upsert", "equal _id", "top level"}}
	sort := fault{doclock.ErrInvalidArgument, []string{"Sort"}}
	most := fault{doclock.ErrInvalidArgument, []string{"HoldAtMost"}}
	pointer := fault{doclock.ErrInvalidArgument, []string{"Into", "non-nil pointer"}}
	type input struct {
		ctx    context.Context
		l      *multilock.Locker
		filter any
		tag    string
		into   doclock.AcquireOption
		fault  fault
	}
	inputs := map[string]input{
		"unknown tag":             {tag: "skim", fault: fault{doclock.ErrInvalidArgument, []string{`"skim"`, "read, write"}}},
		"no tag":                  {tag: "", fault: fault{doclock.ErrInvalidArgument, []string{`""`, "read, write"}}},
		"nil filter":              {filter: nil, fault: noDocument},
		"empty D":                 {filter: bson.D{}, fault: inFilter},
		"nil option":              {fault: fault{doclock.ErrInvalidArgument, []string{"option 0", "nil"}}},
		"Into nil":                {into: doclock.Into(nil), fault: pointer},
		"Into a value":            {into: doclock.Into(bson.M{}), fault: pointer},
		"Into a nil pointer":      {into: doclock.Into((*bson.M)(nil)), fault: pointer},
		"TTL":                     {into: doclock.TTL(999 * time.Millisecond), fault: fault{doclock.ErrInvalidArgument, []string{"TTL", "999ms", "1s", "720h0m0s"}}},
		"MaxWait below 0":         {into: doclock.MaxWait(-1), fault: fault{doclock.ErrInvalidArgument, []string{"MaxWait"}}},
		"TTL 0":                   {into: doclock.TTL(0), fault: fault{doclock.ErrInvalidArgument, []string{"TTL", "0s", "1s"}}},
		"TTL above":               {into: doclock.TTL(doclock.MaxTTL + 1), fault: fault{doclock.ErrInvalidArgument, []string{"TTL", "720h0m0s"}}},
		"Owner nobody":            {into: doclock.Owner(""), fault: fault{doclock.ErrInvalidArgument, []string{"Owner", "0 bytes", "256"}}},
		"Owner":                   {into: doclock.Owner(strings.Repeat("x", 257)), fault: fault{doclock.ErrInvalidArgument, []string{"Owner", "257 bytes", "256"}}},
		"Owner with NUL":          {into: doclock.Owner("a\x00b"), fault: fault{doclock.ErrInvalidArgument, []string{"Owner", "NUL"}}},
		"HoldAtLeast below 0":     {into: doclock.HoldAtLeast(-1), fault: fault{doclock.ErrInvalidArgument, []string{"HoldAtLeast", "-1ns", "0s", "720h0m0s"}}},
		"HoldAtLeast above":       {into: doclock.HoldAtLeast(doclock.MaxTTL + 1), fault: fault{doclock.ErrInvalidArgument, []string{"HoldAtLeast", "720h0m0s"}}},
		"HoldAtLeast without end": {into: doclock.HoldAtLeast(math.MaxInt64), fault: fault{doclock.ErrInvalidArgument, []string{"HoldAtLeast", "720h0m0s"}}},
		"HoldAtLeast of a shared tag": {
			l: sharing, tag: "read", into: doclock.HoldAtLeast(time.Second),
			fault: fault{doclock.ErrInvalidArgument, []string{"HoldAtLeast", `"read"`, "ShareInProcess", "not shared"}},
		},
		"Upsert by another field": {l: upserting, filter: byName, fault: pinned},
		"Upsert with an operator": {l: upserting, filter: bson.M{"_id": bson.M{"$gt": 1}}, fault: pinned},
		"Upsert below $and":       {l: upserting, filter: bson.M{"$and": bson.A{flowers}}, fault: pinned},
		"Upsert by a pattern":     {l: upserting, filter: bson.M{"_id": bson.Regex{Pattern: "^a"}}, fault: pinned},
		"running transaction":     {ctx: mongo.NewSessionContext(t.Context(), session), fault: fault{doclock.ErrInTransaction, []string{"before it starts"}}},
		"ended context":           {ctx: ended, fault: fault{why, nil}},
		"ended context, the end":  {ctx: ended, fault: fault{context.Canceled, nil}},
		"closed Locker":           {l: closed, fault: fault{doclock.ErrClosed, nil}},
		"Sort nil":                {into: doclock.Sort(nil), fault: sort},
		"Sort by nothing":         {into: doclock.Sort(bson.D{}), fault: sort},
		"Sort by a map of two":    {into: doclock.Sort(bson.M{"a": 1, "b": 1}), fault: sort},
		"Sort by an operator":     {into: doclock.Sort(bson.D{{Key: "$a", Value: 1}}), fault: sort},
		"Sort by an empty field":  {into: doclock.Sort(bson.D{{Key: "", Value: 1}}), fault: sort},
		"Sort by a field twice":   {into: doclock.Sort(bson.D{{Key: "a", Value: 1}, {Key: "a", Value: -1}}), fault: sort},
		"Sort in no direction":    {into: doclock.Sort(bson.D{{Key: "a", Value: 2}}), fault: sort},
		"Sort in a text":          {into: doclock.Sort(bson.D{{Key: "a", Value: "up"}}), fault: sort},
		"Sort malformed":          {into: doclock.Sort(bson.Raw{1, 2}), fault: sort},
		"Sort by a number":        {into: doclock.Sort(7), fault: sort},
		"SkipLocked and Upsert":   {l: upserting, into: doclock.SkipLocked(), fault: fault{doclock.ErrInvalidArgument, []string{"SkipLocked"}}},
		"HoldAtMost 0":            {into: doclock.HoldAtMost(0), fault: most},
		"HoldAtMost below 0":      {into: doclock.HoldAtMost(-time.Second), fault: most},
		"HoldAtMost too short":    {into: doclock.HoldAtMost(doclock.MinTTL - 1), fault: most},
		"HoldAtMost above":        {into: doclock.HoldAtMost(doclock.MaxTTL + 1), fault: most},
		"HoldAtMost, shared tag":  {l: sharing, tag: "read", into: doclock.HoldAtMost(time.Minute), fault: most},
	}
	ticket := p.enqueue(plain, "write")
	w.Take()
	before := p.Stored()
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		in := inputs[name]
		if in.ctx == nil {
			in.ctx = t.Context()
		}
		if in.l == nil {
			in.l = plain
		}
		if in.filter == nil && !strings.Contains(name, "nil filter") {
			in.filter = flowers
		}
		if in.tag == "" && name != "no tag" {
			in.tag = "write"
		}
		var opts []doclock.AcquireOption
		if in.into != nil || name == "nil option" {
			opts = append(opts, in.into)
		}
		for call, ask := range asks {
			lease, err := ask(in.l, in.ctx, in.filter, in.tag, opts...)
			in.fault.check(t, name+": "+call, err)
			if lease != nil {
				t.Errorf("%s: %s returned a lease", name, call)
			}
			p.want(err, doclock.ErrNotAcquired)
		}
		if sent := w.Take(); len(sent) != 0 {
			t.Errorf("%s: it sent %v", name, sent)
		}
	}
	inTransaction := mongo.NewSessionContext(t.Context(), session)
	for name, call := range tickets {
		p.sends(w, 0, name, func() error { return errOf(call(ticket, inTransaction)) }, doclock.ErrInTransaction, doclock.ErrNotAcquired)
	}
	if after := p.Stored(); !slices.Equal(before, after) {
		t.Errorf("the document was %v, and is %v", before, after)
	}
	must(t, session.AbortTransaction(t.Context()))
	p.got(ticket.Confirm(inTransaction)) // after the transaction, in its session
}

// tickets are the ways to have what a ticket waits for.
var tickets = map[string]func(*multilock.Ticket, context.Context) (doclock.Lease, error){
	"Confirm": (*multilock.Ticket).Confirm,
	"Wait":    (*multilock.Ticket).Wait,
}

// A Go map of several keys has no order, and so names another document each time, in the
// _id, in a field of the shard key, and below. Every call that takes a filter refuses it;
// a bson.D and a struct are right, and end with the context. internal/engine has what else
// is a map.
func TestAMapNamesNoDocument(t *testing.T) {
	virtual(t, func(p *place) {
		coll, w := p.watched()
		l := p.locker(coll, relations.WritePreferring(), doclock.ShardKey("place"))
		token := p.detach(p.try(p.locker(p.coll, relations.WritePreferring()), "write"))
		ctx, end := context.WithCancel(p.Context())
		end()
		key, write := admin.ShardKey("place"), admin.Query{Tags: []string{"write"}}
		all := map[string]func(filter any) error{
			"TryAcquire": func(f any) error { return errOf(l.TryAcquire(ctx, f, "write")) },
			"Acquire":    func(f any) error { return errOf(l.Acquire(ctx, f, "write")) },
			"claim":      func(f any) error { return errOf(l.Acquire(ctx, f, "write", doclock.SkipLocked())) },
			"Enqueue":    func(f any) error { return errOf(l.Enqueue(ctx, f, "write")) },
			"Do": func(f any) error {
				return l.Do(ctx, f, "write", func(context.Context, doclock.Lease) error { return nil })
			},
			"Inspect": func(f any) error { return errOf(admin.Inspect(ctx, coll, f, key)) },
			"Remove":  func(f any) error { return errOf(admin.Remove(ctx, coll, write, key, admin.Within(f))) },
			"Sweep":   func(f any) error { return errOf(admin.Sweep(ctx, coll, key, admin.Within(f))) },
			"Entries": func(f any) (last error) {
				for _, err := range admin.Entries(ctx, coll, admin.Query{}, key, admin.Within(f)) {
					last = err
				}
				return last
			},
		}
		named := map[string]func(filter any) error{ // they need one that names a document
			"AcquireAll": func(f any) error { return errOf(multilock.AcquireAll(ctx, l.Want(f, "write"))) },
			"Resume":     func(f any) error { return errOf(l.Resume(ctx, f, token)) },
			"Touch":      func(f any) error { return l.Touch(ctx, f, token) },
		}
		rapid.Check(p, func(t *rapid.T) {
			f := drawFilter(t)
			check := func(name string, err error, sent int) {
				refused := errors.Is(err, doclock.ErrInvalidArgument) && strings.Contains(err.Error(), "bson.D") && sent == 0
				if refused == f.ordered || f.ordered && !errors.Is(err, context.Canceled) {
					t.Errorf("%s of %#v, with an order: %t: %v, %d commands", name, f.filter, f.ordered, err, sent)
				}
			}
			for _, calls := range []map[string]func(any) error{all, named} {
				for name, call := range calls {
					if before := w.Count(); f.named || all[name] != nil {
						err := call(f.filter)
						check(name, err, w.Count()-before)
					}
				}
			}
		})
	})
}

// drawn is a filter, or a value in it.
type drawn struct {
	filter  any
	ordered bool // none of its maps has several fields
	named   bool // it demands an equal _id and shard key
}

func drawFilter(t *rapid.T) drawn {
	v := drawValue(t, 3)
	v.named = true
	id, place := any(1), any("Bern")
	if rapid.Bool().Draw(t, "in the shard key") {
		place = v.filter
	} else {
		id = v.filter
	}
	switch rapid.SampledFrom([]string{"map", "D", "struct", "pointer", "$and", "$eq"}).Draw(t, "filter") {
	case "map":
		v.filter = bson.M{"_id": id, "place": place}
	case "D":
		v.filter = bson.D{{Key: "place", Value: place}, {Key: "_id", Value: id}}
	case "struct":
		v.filter = struct {
			ID    any `bson:"_id"`
			Place any
		}{id, place}
	case "pointer":
		v.filter = &map[string]any{"_id": id, "place": place}
	case "$and":
		v.named, v.filter = false, bson.M{"$and": []bson.M{{"_id": id}, {"place": place}}}
	case "$eq":
		v.named, v.filter = false, bson.D{{Key: "_id", Value: bson.M{"$eq": id}}, {Key: "place", Value: bson.M{"$eq": place, "$gt": 0}}}
	}
	return v
}

func drawValue(t *rapid.T, depth int) drawn {
	kinds := []string{"text", "number"}
	if depth > 0 {
		kinds = append(kinds, "M", "D", "texts", "struct", "array", "pointer")
	}
	kind := rapid.SampledFrom(kinds).Draw(t, "kind")
	v := drawn{ordered: true}
	var below []any
	if slices.Contains([]string{"M", "D", "struct", "array", "pointer"}, kind) {
		for range rapid.IntRange(0, 3).Draw(t, "fields") {
			b := drawValue(t, depth-1)
			below, v.ordered = append(below, b.filter), v.ordered && b.ordered
		}
	}
	m, d := bson.M{}, bson.D{}
	for i, b := range below {
		name := string(rune('a' + i))
		m[name], d = b, append(d, bson.E{Key: name, Value: b})
	}
	switch kind {
	case "text":
		v.filter = "mail"
	case "number":
		v.filter = 7
	case "M":
		v.filter, v.ordered = m, v.ordered && len(m) <= 1
	case "pointer":
		v.filter, v.ordered = &m, v.ordered && len(m) <= 1
	case "D":
		v.filter = d
	case "texts":
		texts := map[string]string{"group": "mail", "name": "nightly"}
		if v.ordered = rapid.Bool().Draw(t, "one"); v.ordered {
			delete(texts, "name")
		}
		v.filter = texts
	case "struct":
		v.filter = struct {
			Group string
			More  []any
		}{"mail", below}
	case "array":
		v.filter = append(bson.A{}, below...)
	}
	return v
}
