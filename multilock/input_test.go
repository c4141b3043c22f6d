package multilock_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"github.com/doclock/doclock/writelock"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
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

// invalid is the fault of an argument.
func invalid(says ...string) fault { return fault{doclock.ErrInvalidArgument, says} }

func TestNewRefusesBadOptions(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	const below = 999 * time.Millisecond
	for says, opts := range map[string][]doclock.Option{ // the words of the error
		"TTL|999ms|1s|720h0m0s":     {doclock.TTL(below)},
		"TTL|1s|720h0m0s":           {doclock.TTL(0), doclock.TTL(-time.Hour), doclock.TTL(math.MaxInt64), doclock.TTL(doclock.MaxTTL + 1)},
		`TagTTL|"read"|1s|720h0m0s`: {doclock.TagTTL("read", below), doclock.TagTTL("read", doclock.MaxTTL+1)},
		`TagTTL|"skim"|read, write`: {doclock.TagTTL("skim", time.Second)},
		"Tolerance|0s|1h0m0s":       {doclock.ClockTolerance(-1), doclock.ClockTolerance(doclock.MaxClockTolerance + 1)},
		"AttemptTimeout|1ms|1m0s":   {doclock.AttemptTimeout(0), doclock.AttemptTimeout(-time.Second), doclock.AttemptTimeout(doclock.MaxAttemptTimeout + 1)},
		"option 0|nil":              {nil},
		"Owner|bytes|256":           {doclock.Owner(""), doclock.Owner(strings.Repeat("x", 257))},
		"Owner|NUL":                 {doclock.Owner("a\x00b")},
		"Field":                     {doclock.Field("a\x00b"), doclock.Field("\xff"), doclock.Field("__doclockNow")},
		"Field|top-level":           {doclock.Field("")},
		`Field|"a.b"|dot`:           {doclock.Field("a.b")},
		"Field|dollar":              {doclock.Field("$lock")},
		"Field|_id":                 {doclock.Field("_id")},
		"ShardKey|no fields":        {doclock.ShardKey()},
		`ShardKey|""`:               {doclock.ShardKey("region", "")},
		`ShardKey|"$region"`:        {doclock.ShardKey("$region")},
		`ShardKey|"region"|once`:    {doclock.ShardKey("region", "region")},
		`ShardKey|"region"|within`:  {doclock.ShardKey("region.city", "region")},
		`ShardKey|"region..city"`:   {doclock.ShardKey("region..city")},
		"ShardKey|lock|must not":    {doclock.ShardKey("lock.write"), doclock.ShardKey("region", "lock")},
		`holders of "write" can't share an entry: it respects itself`:                       {doclock.ShareInProcess("read", "write")},
		`ShareInProcess is for "reed", which is not a tag of the rules (tags: read, write)`: {doclock.ShareInProcess("reed")},
	} {
		for i, opt := range opts {
			l, err := multilock.New(coll, relations.WritePreferring(), opt)
			invalid(strings.Split(says, "|")...).check(t, fmt.Sprint(says, " ", i), err)
			if l != nil {
				t.Errorf("%s: there is a Locker", says)
			}
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
	invalid("TTL", "Owner", "Field", "option 5 is nil", `"skim"`, `"scan"`).check(t, "New", err)
}

func TestNewRefusesNoCollectionAndBadRules(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	_, err := multilock.New(nil, relations.Fair())
	invalid("collection", "nil").check(t, "no collection", err)
	for name, rules := range map[string]relations.Rules{
		"nil": nil, "empty": {}, "a bad name": {"a.b": nil}, "a tag that isn't there": {"a": {"b": {Kind: relations.Cooperative}}}, "no slots": relations.Semaphore(0),
	} {
		_, err := multilock.New(p.coll, rules)
		fault{relations.ErrInvalidRules, nil}.check(t, name, err)
	}
}

// What has no meaning for a call is refused, and named, before anything is sent.
func TestWhatDoesNotFitACall(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	l := p.locker(coll, relations.Fair())
	leads, err := writelock.New(coll)
	must(t, err)
	token := p.detach(p.try(l, "write"))
	w.Take()
	id, skips, waits := uuid.New(), doclock.SkipLocked(), doclock.MaxWait(time.Second)
	takes := doclock.TakeOver(doclock.Holder{ID: id, Fence: 7})
	of := func(h doclock.Holder) []doclock.AcquireOption { return []doclock.AcquireOption{doclock.TakeOver(h)} }
	try := func(opts ...doclock.AcquireOption) error {
		return errOf(l.TryAcquire(p.Context(), flowers, "write", opts...))
	}
	for says, errs := range map[string][]error{
		"function":   {l.Do(p.Context(), flowers, "write", nil), multilock.DoAll(p.Context(), nil, l.Want(flowers, "write")), leads.Lead(p.Context(), flowers, nil)},
		"MaxWait":    {try(waits), errOf(l.Enqueue(p.Context(), flowers, "write", waits)), errOf(l.Acquire(p.Context(), flowers, "write", takes, waits))},
		"SkipLocked": {errOf(l.Enqueue(p.Context(), byName, "write", skips)), try(takes, skips)},
		"TakeOver": {
			try(of(doclock.Holder{Fence: 7})...), try(of(doclock.Holder{ID: id})...), try(of(doclock.Holder{ID: id, Fence: -1})...),
			try(of(doclock.Holder{ID: id, Fence: 7, Waiting: true})...), errOf(l.Enqueue(p.Context(), flowers, "write", takes)),
			errOf(multilock.AcquireAll(p.Context(), l.Want(flowers, "write", takes))),
		},
		"a resume": {errOf(l.Resume(p.Context(), flowers, token, takes))},
	} {
		for i, err := range errs {
			fault{doclock.ErrInvalidArgument, []string{"not acquired", says}}.check(t, fmt.Sprint(says, " ", i), err)
		}
	}
	if sent := w.Take(); len(sent) > 0 {
		t.Errorf("sent %q", sent)
	}
}

// For bad arguments of an acquire the error says what would be right. It is refused
// after Close, and in an ended context, too. Nothing is sent, and nothing is changed.
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
	pinned := invalid("Upsert", "equal _id", "top level")
	type input struct {
		ctx    context.Context
		l      *multilock.Locker
		filter any
		tag    string
		into   doclock.AcquireOption
		fault  fault
	}
	inputs := map[string]input{
		"unknown tag": {tag: "skim", fault: invalid(`"skim"`, "read, write")},
		"no tag":      {tag: "", fault: invalid(`""`, "read, write")},
		"nil filter":  {filter: nil, fault: invalid("bson.M")},
		"empty D":     {filter: bson.D{}, fault: invalid("_id")},
		"a map":       {filter: bson.M{"_id": bson.M{"group": "mail", "name": "nightly"}}, fault: invalid("bson.D")}, // internal/engine has what else is one
		"nil option":  {fault: invalid("option 0", "nil")},
		"HoldAtLeast of a shared tag": {
			l: sharing, tag: "read", into: doclock.HoldAtLeast(time.Second), fault: invalid("HoldAtLeast", `"read"`, "ShareInProcess", "not shared"),
		},
		"HoldAtMost of a shared tag": {l: sharing, tag: "read", into: doclock.HoldAtMost(time.Minute), fault: invalid("HoldAtMost")},
		"SkipLocked and Upsert":      {l: upserting, into: doclock.SkipLocked(), fault: invalid("SkipLocked")},
		"Upsert by another field":    {l: upserting, filter: byName, fault: pinned},
		"Upsert with an operator":    {l: upserting, filter: bson.M{"_id": bson.M{"$gt": 1}}, fault: pinned},
		"Upsert below $and":          {l: upserting, filter: bson.M{"$and": bson.A{flowers}}, fault: pinned},
		"Upsert by a pattern":        {l: upserting, filter: bson.M{"_id": bson.Regex{Pattern: "^a"}}, fault: pinned},
		"running transaction":        {ctx: mongo.NewSessionContext(t.Context(), session), fault: fault{doclock.ErrInTransaction, []string{"before it starts"}}},
		"ended context":              {ctx: ended, fault: fault{why, nil}},
		"ended context, the end":     {ctx: ended, fault: fault{context.Canceled, nil}},
		"closed Locker":              {l: closed, fault: fault{doclock.ErrClosed, nil}},
	}
	for says, opts := range map[string][]doclock.AcquireOption{ // the words of the error
		"Into|non-nil pointer": {doclock.Into(nil), doclock.Into(bson.M{}), doclock.Into((*bson.M)(nil))},
		"TTL|1s|720h0m0s":      {doclock.TTL(999 * time.Millisecond), doclock.TTL(0), doclock.TTL(doclock.MaxTTL + 1)},
		"MaxWait":              {doclock.MaxWait(-1)},
		"Owner|bytes|256":      {doclock.Owner(""), doclock.Owner(strings.Repeat("x", 257))},
		"Owner|NUL":            {doclock.Owner("a\x00b")},
		"HoldAtLeast|720h0m0s": {doclock.HoldAtLeast(-1), doclock.HoldAtLeast(doclock.MaxTTL + 1), doclock.HoldAtLeast(math.MaxInt64)},
		"HoldAtMost":           {doclock.HoldAtMost(0), doclock.HoldAtMost(-time.Second), doclock.HoldAtMost(doclock.MinTTL - 1), doclock.HoldAtMost(doclock.MaxTTL + 1)},
		"Sort": {
			doclock.Sort(nil), doclock.Sort(bson.D{}), doclock.Sort(bson.M{"a": 1, "b": 1}), doclock.Sort(&bson.M{"a": 1, "b": 1}), doclock.Sort(bson.D{{Key: "$a", Value: 1}}),
			doclock.Sort(bson.D{{Key: "", Value: 1}}), doclock.Sort(bson.D{{Key: "a", Value: 1}, {Key: "a", Value: -1}}),
			doclock.Sort(bson.D{{Key: "a", Value: 2}}), doclock.Sort(bson.D{{Key: "a", Value: "up"}}), doclock.Sort(bson.Raw{1, 2}), doclock.Sort(7),
		},
	} {
		for i, opt := range opts {
			inputs[fmt.Sprint(says, " ", i)] = input{into: opt, fault: invalid(strings.Split(says, "|")...)}
		}
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
