package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// stored is an entry of a document, as the library writes it. Times are relative
// to now; an entry without a fence waits.
type stored struct {
	tag, owner   string
	id           uuid.UUID
	fence        int64
	age, expires time.Duration
}

// insert writes a document with these entries by hand.
func (p *place) insert(id any, entries ...stored) {
	p.Helper()
	if _, err := p.coll.InsertOne(p.Context(), document(id, entries...)); err != nil {
		p.Fatal(err)
	}
}

func document(id any, entries ...stored) bson.D {
	tags, now := map[string]bson.A{}, time.Now()
	for i, e := range entries {
		if e.id == uuid.Nil {
			e.id = uuid.New()
		}
		d := bson.D{
			{Key: "id", Value: bson.Binary{Subtype: bson.TypeBinaryUUID, Data: e.id[:]}}, {Key: "owner", Value: e.owner},
			{Key: "seq", Value: int64(i + 1)}, {Key: "since", Value: now.Add(-e.age)}, {Key: "expires", Value: now.Add(e.expires)},
		}
		if e.fence > 0 {
			d = append(d, bson.E{Key: "fence", Value: e.fence})
		}
		tags[e.tag] = append(tags[e.tag], d)
	}
	return bson.D{{Key: "_id", Value: id}, {Key: "text", Value: "the application's"},
		{Key: "lock", Value: bson.D{{Key: "fence", Value: int64(100)}, {Key: "tags", Value: tags}}}}
}

// crowd is a collection with an entry of each kind.
func crowd(p *place) {
	p.insert("A-17", stored{tag: "write", owner: "web-3/4711/api", fence: 10, age: 3 * time.Hour, expires: time.Hour})
	p.insert(7, stored{tag: "read", owner: "web-1/1/api", fence: 11, age: time.Minute, expires: time.Hour},
		stored{tag: "read", owner: "web-2/1/api", fence: 12, age: time.Second, expires: time.Hour},
		stored{tag: "write", owner: "db/1/job", age: time.Second, expires: time.Hour})
	p.insert(bson.ObjectID{0x66}, stored{tag: "write", owner: "dead/1/x", fence: 13, age: 48 * time.Hour, expires: -time.Hour})
	p.insert("it's \x1b[31mred\nor not", stored{tag: "write", owner: "\x1b]0;owned\x07", fence: 14, expires: time.Hour})
	if _, err := p.coll.InsertOne(p.Context(), bson.D{{Key: "_id", Value: "padlock"}, {Key: "lock", Value: "the gardener's"}}); err != nil {
		p.Fatal(err)
	}
}

// ls shows what its flags choose, one line for each entry.
func TestLs(t *testing.T) {
	p := newPlace(t)
	crowd(p)
	for _, c := range []struct {
		flags []string
		want  []string // the owners
	}{
		{nil, []string{"web-3/4711/api", "web-1/1/api", "web-2/1/api", "db/1/job", "dead/1/x", `\x1b]0;owned\a`}},
		{[]string{"--owner", "web-3/4711/api"}, []string{"web-3/4711/api"}},
		{[]string{"--tag", "read"}, []string{"web-1/1/api", "web-2/1/api"}},
		{[]string{"--older", "2h"}, []string{"web-3/4711/api", "dead/1/x"}},
		{[]string{"--older", "2h", "--live"}, []string{"web-3/4711/api"}},
		{[]string{"--expired"}, []string{"dead/1/x"}},
		{[]string{"--within", `{"_id": 7}`, "--tag", "write"}, []string{"db/1/job"}},
		{[]string{"--owner", "nobody"}, nil},
	} {
		out := p.want(0, nil, append([]string{"ls"}, c.flags...)...)
		lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
		if len(c.want) == 0 && out == "" {
			continue
		}
		if len(lines) != len(c.want)+1 || !strings.HasPrefix(lines[0], "DOCUMENT ") {
			t.Errorf("%q: %d lines, want %d:\n%s", c.flags, len(lines), len(c.want)+1, out)
		}
		for _, owner := range c.want {
			if !strings.Contains(out, owner) {
				t.Errorf("%q: %s is missing:\n%s", c.flags, owner, out)
			}
		}
	}
	out := p.want(0, []string{"padlock: its field \"lock\" is not a lock", "1 documents with a lock field"}, "ls")
	if strings.ContainsRune(out, '\x1b') {
		t.Errorf("ls passes an escape sequence on, or shows colours without a terminal: %q", out)
	}
	for _, text := range []string{"A-17", `'{"_id":7}'`, `'{"$oid":"660000000000000000000000"}'`, "expired", "waiting", "3h00m", "-1h00m"} {
		if !strings.Contains(out, text) {
			t.Errorf("%s is missing:\n%s", text, out)
		}
	}
}

// The first column can be pasted as an argument, whatever the _id is.
func TestLsDocumentsCanBePasted(t *testing.T) {
	p := newPlace(t)
	id := uuid.New()
	all := []any{"A-17", "it's $HOME \"x\"", "{brace", "-dash", "", "äöü", 7, int64(1) << 60, 1.5, true, bson.ObjectID{1, 2}, bson.Binary{Subtype: 4, Data: id[:]}, bson.D{{Key: "a", Value: 1}}, time.UnixMilli(1e12)}
	for i, id := range all {
		p.insert(id, stored{tag: "write", owner: "owner-" + itoa(i), fence: 1, expires: time.Hour})
	}
	shownAs := func(id any) string {
		switch id {
		case "A-17":
			return "A-17"
		case "äöü":
			return "'äöü'"
		case "-dash":
			return `'{"_id":"-dash"}'`
		case 7:
			return `'{"_id":7}'`
		}
		return ""
	}
	for i, id := range all {
		out := p.want(0, nil, "ls", "--owner", "owner-"+itoa(i))
		line := strings.Split(out, "\n")[1]
		column := strings.TrimSpace(line[:strings.Index(line, "  write")])
		arg, err := exec.Command("sh", "-c", "printf %s "+column).Output()
		if err != nil {
			t.Fatal(err)
		}
		if want := shownAs(id); want != "" && column != want {
			t.Errorf("%v is shown as %s, want %s", id, column, want)
		}
		p.want(0, []string{"held by owner-" + itoa(i)}, "inspect", string(arg))
	}
}

// With --json each line is an entry that the package admin reads.
func TestLsJSON(t *testing.T) {
	p := newPlace(t)
	crowd(p)
	out := p.want(0, nil, "ls", "--json")
	n := 0
	for lines := bufio.NewScanner(strings.NewReader(out)); lines.Scan(); {
		if strings.Contains(lines.Text(), "padlock") {
			if !strings.Contains(lines.Text(), `"error"`) {
				t.Error(lines.Text())
			}
			continue
		}
		var e admin.Entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil || e.Owner == "" || e.ID == uuid.Nil {
			t.Errorf("%s: %v", lines.Text(), err)
		}
		n++
	}
	if n != 6 {
		t.Errorf("%d entries:\n%s", n, out)
	}
}

// A reader of the first lines alone ends ls, and ls says nothing about it.
func TestLsIntoHead(t *testing.T) {
	p := newPlace(t)
	var many []any
	for i := range 3000 { // more than a pipe holds
		many = append(many, document(i, stored{tag: "write", owner: "web/1/api", fence: 1, expires: time.Hour}))
	}
	if _, err := p.coll.InsertMany(t.Context(), many); err != nil {
		t.Fatal(err)
	}
	ls := p.command("ls")
	var said bytes.Buffer
	ls.Stderr = &said
	out, err := ls.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := ls.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.HasPrefix(line, "DOCUMENT") {
		t.Errorf("%q, %v", line, err)
	}
	out.Close()
	_ = ls.Wait()
	if said.Len() > 0 {
		t.Error(said.String())
	}
	if code := endedWith(ls.ProcessState); code != 128+13 { // of a SIGPIPE, as any command's
		t.Errorf("it ended with %d", code)
	}
}

// On a terminal there is a summary.
func TestLsOnATerminal(t *testing.T) {
	p := newPlace(t)
	crowd(p)
	r := p.startOnTerminal(p.command("ls"))
	r.ends(0)
	if r.out.count("4 held, 1 waiting, 1 expired") != 1 || r.out.count("\x1b") > 0 {
		t.Errorf("it shows\n%s", r.out)
	}
}

// watch without a terminal prints one table after the other, and goes on if the
// server is gone. The oldest entries come first.
func TestWatch(t *testing.T) {
	p := newPlace(t)
	crowd(p)
	out := p.want(0, []string{"4 held, 1 waiting, 1 expired"}, "watch", "--rounds", "2", "--every", "100ms")
	if strings.Count(out, "DOCUMENT ") != 2 || strings.Contains(out, "\x1b") || strings.Index(out, "dead/1/x") > strings.Index(out, "web-3") {
		t.Errorf("it shows\n%s", out)
	}
	out = p.want(0, nil, "watch", "--rounds", "1", "--json", "--expired")
	var round struct {
		At      time.Time
		Count   tally
		Entries []admin.Entry
	}
	if err := json.Unmarshal([]byte(out), &round); err != nil || round.Count.Expired != 1 || len(round.Entries) != 1 || round.At.IsZero() {
		t.Errorf("%s: %v", out, err)
	}
	p.want(exitUsage, []string{"at least 100ms"}, "watch", "--every", "1ms")

	way := p.proxied()
	p.uri += "&serverSelectionTimeoutMS=200"
	r := p.start("watch", "--every", "100ms")
	r.says("web-3/4711/api")
	way.net.Down(true)
	r.says("No server answered")
	before := r.out.count("web-3/4711/api")
	way.net.Down(false)
	fixture.Eventually(t, "it shows the entries again", func() bool { return r.out.count("web-3/4711/api") > before })
	r.signal(2)
	r.ends(0)
}

// On a terminal each round is in the place of the one before, and has as many lines as
// fit. Ctrl-C ends it.
func TestWatchOnATerminal(t *testing.T) {
	p := newPlace(t)
	for i := range 30 {
		p.insert(i, stored{tag: "write", owner: "web-3", fence: 1, age: time.Duration(i) * time.Hour, expires: time.Hour})
	}
	r := p.startOnTerminal(p.command("watch", "--every", "100ms"))
	fixture.Eventually(t, "two rounds are shown", func() bool { return r.out.count("\x1b[H\x1b[2J") >= 2 })
	r.types("\x03")
	r.ends(0)
	round := strings.Split(r.out.String(), "\x1b[H\x1b[2J")[1]
	if n := strings.Count(round, "\n"); n > 23 || !strings.Contains(round, "and 12 more") {
		t.Errorf("%d lines on a terminal of 24:\n%s", n, round)
	}
}
