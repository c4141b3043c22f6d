package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// inspect says first who holds the document, and with rules who is in whose way.
func TestInspect(t *testing.T) {
	p := newPlace(t)
	crowd(p)
	if out := p.want(0, []string{"3h00m", "fence    10", "59m", "unless it is renewed"}, "inspect", "A-17"); !strings.HasPrefix(out, "A-17 in ") || !strings.Contains(strings.Split(out, "\n")[0], "is held by web-3/4711/api") {
		t.Errorf("it begins with %q", strings.Split(out, "\n")[0])
	}
	p.want(0, []string{"2 held, 1 waiting, 0 expired", `behind   web-1/1/api ("read"), web-2/1/api ("read")`, "read       is kept back by db/1/job", "write      is kept back by web-1/1/api"},
		"inspect", `{"_id": 7}`, "--rules", "fair")
	p.want(0, []string{"is free: nobody holds it", "expired 1h00m ago and excludes nobody"}, "inspect", `{"$oid":"660000000000000000000000"}`)
	p.want(exitFailed, []string{"not a lock", "--field"}, "inspect", "padlock")
	p.want(exitFailed, []string{"no such document", "an ObjectID"}, "inspect", "7")
	p.want(exitUsage, []string{"is not extended JSON"}, "inspect", "{_id: 7}")
	p.want(exitUsage, []string{"accepts 1 arg"}, "inspect")
	var lock struct {
		Fence    int64
		Entries  []admin.Entry
		InTheWay map[string][]uuid.UUID
	}
	if out := p.want(0, nil, "inspect", "A-17", "--json", "--rules", "exclusive"); json.Unmarshal([]byte(out), &lock) != nil || lock.Fence != 100 || len(lock.Entries) != 1 || len(lock.InTheWay["write"]) != 1 {
		t.Errorf("as JSON: %s", out)
	}
}

// break shows what it removes, and removes exactly that.
func TestBreak(t *testing.T) {
	p := newPlace(t)
	crowd(p)
	p.want(exitUsage, []string{"web-3/4711/api", "stdin is not a terminal", "--yes"}, "break", "A-17")
	p.want(exitFailed, []string{"no such entry"}, "break", "A-17", "--yes", "--owner", "somebody else")
	p.want(exitUsage, []string{"3 entries match", "--all"}, "break", `{"_id": 7}`, "--yes")
	p.want(exitUsage, []string{"is no id"}, "break", "A-17", "--id", "17")
	if n := len(p.entries("A-17")) + len(p.entries(7)); n != 4 {
		t.Fatalf("%d entries are left of 4", n)
	}
	id := p.entries(7)[1].ID
	p.want(0, []string{"removed", id.String()}, "break", `{"_id": 7}`, "--yes", "--id", strings.ToUpper(id.String()))
	if left := p.entries(7); len(left) != 2 || left[0].ID == id || left[1].ID == id {
		t.Errorf("the entries are %v", left)
	}
	p.want(0, nil, "break", `{"_id": 7}`, "--yes", "--all")
	p.free(7)
	var gone admin.Entry
	if out := p.want(0, nil, "break", "A-17", "--yes", "--json"); json.Unmarshal([]byte(out), &gone) != nil || gone.Owner != "web-3/4711/api" {
		t.Errorf("as JSON: %s", out)
	}
	p.free("A-17")
	p.want(exitFailed, []string{"no such entry"}, "break", "A-17", "--yes")
}

// On a terminal break asks. Everything but yes leaves the entry.
func TestBreakAsks(t *testing.T) {
	p := newPlace(t)
	for answer, code := range map[string]int{"\n": exitFailed, "n\n": exitFailed, "yess\n": exitFailed, "\x04": exitFailed, "\x03": 130} {
		p.insert("for "+answer, stored{tag: "write", owner: "web-3/4711/api", fence: 10, expires: time.Hour})
		r := p.startOnTerminal(p.command("break", "for "+answer))
		r.says("Remove 1 entry? [y/N]")
		if r.out.count("web-3/4711/api") == 0 {
			t.Error("it asks before it shows the entry")
		}
		r.types(answer)
		r.ends(code)
		if len(p.entries("for "+answer)) != 1 {
			t.Errorf("it took %q for a yes", answer)
		}
	}
	r := p.startOnTerminal(p.command("break", "for n\n"))
	r.says("[y/N]")
	r.tell("y")
	r.ends(0)
	p.free("for n\n")
}

// An entry that became another one after it was shown stays.
func TestBreakLeavesWhatItHasNotShown(t *testing.T) {
	p := newPlace(t)
	p.insert("A-17", stored{tag: "write", owner: "web-3/4711/api", fence: 10, expires: time.Hour})
	r := p.startOnTerminal(p.command("break", "A-17"))
	r.says("[y/N]")
	if _, err := p.coll.UpdateOne(t.Context(), bson.M{"_id": "A-17"}, bson.M{"$set": bson.M{"lock.tags.write.0.fence": int64(11)}}); err != nil {
		t.Fatal(err)
	}
	r.tell("y")
	r.ends(exitFailed)
	r.says("no such entry")
	if e := p.entries("A-17"); len(e) != 1 || e[0].Fence != 11 {
		t.Errorf("the entries are %v", e)
	}
}

// break --owner removes one owner's entries, from all documents.
func TestBreakOwner(t *testing.T) {
	p := newPlace(t)
	var many []any
	for i := range 250 {
		many = append(many, document(i, stored{tag: "write", owner: "dead/1/x", fence: 1, expires: time.Hour}, stored{tag: "read", owner: "alive/1/x", fence: 2, expires: time.Hour}))
	}
	if _, err := p.coll.InsertMany(t.Context(), many); err != nil {
		t.Fatal(err)
	}
	p.want(exitUsage, []string{"--yes", "and 240 more"}, "break", "--owner", "dead/1/x")
	p.want(exitFailed, []string{"has no such entry"}, "break", "--owner", "Dead/1/x")
	p.want(exitFailed, []string{"has no such entry", "--prefix"}, "break", "--owner", "dead/1", "--yes")
	p.want(exitFailed, []string{`begins with "Dead/"`}, "break", "--prefix", "Dead/", "--yes")
	p.want(exitUsage, []string{"none of the others can be"}, "break", "--owner", "dead/1/x", "--prefix", "dead/", "--yes")
	p.want(exitUsage, []string{"give one NAME"}, "break", "--yes")
	p.want(exitUsage, []string{"--prefix is empty"}, "break", "--prefix", "", "--yes")
	p.want(exitUsage, []string{"are for all documents"}, "break", "A-17", "--prefix", "dead/", "--yes")
	p.want(exitUsage, []string{"are for one document"}, "break", "--owner", "dead/1/x", "--all", "--yes")
	p.want(exitFailed, []string{"has no such entry"}, "break", "--owner", "dead/1/x", "--older", "1h", "--yes")
	p.want(0, []string{"removed 1 entry"}, "break", "--owner", "dead/1/x", "--within", `{"_id": 3}`, "--yes")
	if out := p.want(0, nil, "break", "--prefix", "dead/", "--yes", "--json"); strings.TrimSpace(out) != `{"removed":249,"deleted":0,"foreign":0}` {
		t.Errorf("as JSON: %s", out)
	}
	for i := range 250 {
		if e := p.entries(i); len(e) != 1 || e[0].Owner != "alive/1/x" {
			t.Fatalf("the entries of %d are %v", i, e)
		}
	}
	r := p.startOnTerminal(p.command("break", "--owner", "alive/1/x"))
	r.says("Remove 250 entries of alive/1/x? [y/N]")
	r.tell("y")
	r.ends(0)
	p.free(0)
}

// sweep removes what has expired, and with --delete-idle old named locks.
func TestSweep(t *testing.T) {
	p := newPlace(t)
	crowd(p)
	p.want(0, []string{"removed 1 entry; 1 document with a lock field that is not doclock's left alone"}, "sweep")
	p.want(exitUsage, []string{"at least 1h"}, "sweep", "--delete-idle", "1m")
	old := time.Now().Add(-3 * time.Hour).UnixMilli()
	if _, err := p.coll.InsertOne(t.Context(), bson.D{{Key: "_id", Value: "named"}, {Key: "lock", Value: bson.D{{Key: "fence", Value: old}, {Key: "tags", Value: bson.D{}}}}}); err != nil {
		t.Fatal(err)
	}
	if out := p.want(0, nil, "sweep", "--delete-idle", "2h", "--json"); strings.TrimSpace(out) != `{"removed":0,"deleted":1,"foreign":1}` {
		t.Errorf("as JSON: %s", out)
	}
	p.want(exitFailed, []string{"no such document"}, "inspect", "named")
	p.want(0, nil, "inspect", "A-17")
}

// index makes the index of the package admin.
func TestIndex(t *testing.T) {
	p := newPlace(t)
	p.want(0, []string{"lock.tags.write.id_1"}, "index", "write")
	if out := p.want(0, nil, "index", "write", "read", "--json"); !strings.Contains(out, `{"indexes":["lock.tags.write.id_1","lock.tags.read.id_1"]}`) {
		t.Errorf("as JSON: %s", out)
	}
	p.want(exitUsage, []string{"a b"}, "index", "a b")
	p.want(exitUsage, nil, "index")
}

// check says what the server is.
func TestCheck(t *testing.T) {
	p := newPlace(t)
	p.want(0, []string{"supported", "clock skew", "clock jump   none seen in 16 readings over "}, "check")
	var info struct {
		Supported     bool
		Kind, Version string
		ClockReadings int
	}
	if out := p.want(0, nil, "check", "--json"); json.Unmarshal([]byte(out), &info) != nil || !info.Supported || info.Kind == "" || info.Version == "" || info.ClockReadings == 0 {
		t.Errorf("as JSON: %s", out)
	}
	for _, of := range []struct {
		skew, jump time.Duration
		line, err  string
	}{
		{0, 0, "none seen", ""},
		{0, 200 * time.Millisecond, "+200 ms", ""},
		{0, -time.Second, "-1000 ms", "a server's clock has jumped by -1s"},
		{time.Second, 0, "none seen", "the servers' clocks differ by 1s"},
	} {
		var out strings.Builder
		info := doclock.ServerInfo{ClockSkew: of.skew, ClockJump: of.jump, ClockReadings: 3}
		(&cli{out: &out}).checkText(info, true)
		err := clockTrouble(info)
		if !strings.Contains(out.String(), "clock jump   "+of.line+" in 3 readings") || (err != nil) != (of.err != "") || err != nil && !strings.Contains(err.Error(), of.err) {
			t.Errorf("%+v: %s, %v", of, &out, err)
		}
	}
}
