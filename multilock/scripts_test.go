package multilock_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

var update = flag.Bool("update", false, "write the scripts' results anew")

// testdata/scripts has the interactions that a reader of docs/protocol.md must understand, as etcd-io/raft has its own: a
// line that begins with > is a command, and its result, what it has sent, and the document after it follow. They run on a
// replica set, in virtual time.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "scripts", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			kept, err := os.ReadFile(file)
			must(t, err)
			var got strings.Builder
			inShop(t, func(s *shop) {
				script := &script{shop: s, processes: map[string]*process{}, names: map[string]string{}, leases: map[string]int{}}
				for line := range strings.Lines(string(kept)) {
					switch command, found := strings.CutPrefix(line, "> "); {
					case found:
						got.WriteString(line + script.run(strings.Fields(command)))
					case line == "\n", strings.HasPrefix(line, "#"):
						got.WriteString(line)
					}
				}
			})
			switch {
			case *update:
				must(t, os.WriteFile(file, []byte(got.String()), 0o644))
			case got.String() != string(kept):
				t.Errorf("got\n%s\nwant\n%s", &got, kept)
			}
		})
	}
}

// script is a run of one.
type script struct {
	*shop
	processes map[string]*process
	names     map[string]string // of ids
	leases    map[string]int    // how many an owner has had
	tokens    []int64           // fencing tokens, in their order
	seen      string            // the document, as it was seen last
}

// process is a client with one lease, and what it has under way.
type process struct {
	*client
	name   string
	held   doclock.Lease
	token  string
	under  chan error    // the call that is under way
	commit chan struct{} // has the transaction go on
}

// run runs a command, and tells what came of it.
func (s *script) run(words []string) string {
	result := ""
	switch words[0] {
	case "time":
		passed, err := time.ParseDuration(words[1])
		must(s, err)
		time.Sleep(passed)
	case "fail-over":
		s.mem.StepDown()
		time.Sleep(time.Second) // all drivers know it
	case "lose-reply":
		s.mem.LoseReplies(1)
		return ""
	default:
		p := s.processes[words[0]]
		if p == nil {
			c := s.client(relations.WritePreferring(), doclock.Owner(words[0]))
			p = &process{client: c, name: words[0]}
			s.processes[words[0]] = p
		}
		result = p.run(s, words[1], strings.Join(words[2:], " "))
		result = "  " + result + sentBy(p) + "\n"
	}
	return result + s.document()
}

// sentBy are the commands that the process has sent. How often somebody who waits asks again is chance.
func sentBy(p *process) string {
	times, names := map[string]int{}, []string{}
	for _, name := range strings.Fields(p.sent.take()) {
		if times[name]++; times[name] == 1 {
			names = append(names, name)
		}
	}
	if times["mark"] > 0 {
		slices.Sort(names[:3]) // they are sent at the same time
	}
	for i, name := range names {
		names[i] += [...]string{"", " twice", " again and again"}[min(times[name]-1, 2)]
	}
	if len(names) == 0 {
		return ""
	}
	return "; sent " + strings.Join(names, ", ")
}

// run runs a process's command.
func (p *process) run(s *script, verb, word string) string {
	ctx := s.Context()
	document := doclock.ID(1)
	switch verb {
	case "acquires":
		return p.take(p.locks.TryAcquire(ctx, document, word))
	case "takes-over":
		of := s.processes["ann"].held
		return p.take(p.locks.TryAcquire(ctx, document, word, doclock.TakeOver(doclock.Holder{Tag: of.Tag(), ID: of.ID(), Fence: of.Fence()})))
	case "waits":
		return p.begin(func() (err error) { p.held, err = p.locks.Acquire(ctx, document, word); return err })
	case "writes":
		return said(p.held.Update(ctx, bson.M{"$set": bson.M{"text": word}}))
	case "releases":
		return said(p.held.Release(ctx))
	case "converts":
		return p.take(p.held.Convert(ctx, word))
	case "detaches":
		token, err := p.held.Detach(ctx)
		p.token = token
		return said(err)
	case "resumes":
		return p.take(p.locks.Resume(ctx, document, s.processes["ann"].token))
	case "begins":
		p.commit = make(chan struct{})
		return p.begin(func() error {
			return p.held.WithTransaction(ctx, func(ctx context.Context) error {
				err := p.insertAnyway(ctx, word)
				<-p.commit
				return err
			})
		})
	case "commits":
		close(p.commit)
		fallthrough
	case "is-answered":
		return said(<-p.under)
	default:
		s.Fatalf("%s: %s: there is no such command", p.name, verb)
		return ""
	}
}

func (p *process) take(held doclock.Lease, err error) string {
	if err == nil {
		p.held = held
	}
	return said(err)
}

// begin has a call go on beside the script.
func (p *process) begin(call func() error) string {
	p.under = make(chan error, 1)
	go func() { p.under <- call() }()
	time.Sleep(time.Millisecond)
	synctest.Wait()
	return "under way"
}

func said(err error) string {
	for _, kind := range []error{doclock.ErrLost, doclock.ErrConflict, doclock.ErrNotFound, doclock.ErrReleased, doclock.ErrOutcomeUnknown} {
		if errors.Is(err, kind) {
			return strings.TrimPrefix(kind.Error(), "doclock: ")
		}
	}
	if err != nil {
		return err.Error()
	}
	return "ok"
}

// document is the document with the contacts, if they have changed, as people write them: an id by its owner's name, a
// fencing token by its number, an expiry by the seconds until then.
func (s *script) document() (text string) {
	raw, err := s.mem.Collection("categories").FindOne(s.Context(), doclock.ID(1)).Raw()
	must(s, err)
	contacts := s.added()
	seen := fmt.Sprint(raw, contacts)
	if seen == s.seen {
		return ""
	}
	s.seen = seen
	tags := raw.Lookup("lock", "tags")
	s.learn(tags)
	var plain, held []string
	for _, e := range elementsOf(raw.Lookup("lock")) {
		if e.Key() != "tags" {
			plain = append(plain, "lock."+e.Key()+": "+s.show(e.Key(), e.Value()))
		}
	}
	for _, e := range elementsOf(tags) {
		held = append(held, "  lock.tags."+e.Key()+": "+s.show("", e.Value())+"\n")
	}
	if value, err := raw.LookupErr("text"); err == nil {
		plain = append(plain, "text: "+value.StringValue())
	}
	if len(contacts) > 0 {
		plain = append(plain, "contacts: "+strings.Join(contacts, ", "))
	}
	return "  " + strings.Join(plain, ", ") + "\n" + strings.Join(held, "")
}

// learn notes whose ids the entries have.
func (s *script) learn(tags bson.RawValue) {
	for _, tag := range elementsOf(tags) {
		for _, e := range elementsOf(tag.Value()) {
			owner := e.Value().Document().Lookup("owner").StringValue()
			if id := string(e.Value().Document().Lookup("id").Value); s.names[id] == "" {
				s.leases[owner]++
				s.names[id] = owner + strings.Repeat("'", s.leases[owner]-1) // ann', of her second lease
			}
		}
	}
}

func (s *script) show(key string, v bson.RawValue) string {
	var parts []string
	for _, e := range elementsOf(v) {
		if e.Key() == "owner" || e.Key() == "since" {
			continue // an id has the owner's name
		}
		part := s.show(e.Key(), e.Value())
		if v.Type == bson.TypeEmbeddedDocument {
			part = e.Key() + ": " + part
		}
		parts = append(parts, part)
	}
	switch v.Type {
	case bson.TypeEmbeddedDocument:
		return "{" + strings.Join(parts, ", ") + "}"
	case bson.TypeArray:
		return "[" + strings.Join(parts, ", ") + "]"
	case bson.TypeBinary:
		return cmp.Or(s.names[string(v.Value)], "…")
	case bson.TypeDateTime:
		return time.Until(v.Time()).Round(time.Second / 2).String()
	case bson.TypeBoolean:
		return fmt.Sprint(v.Boolean())
	}
	n := v.AsInt64()
	if slices.Contains([]string{"fence", "seq", "broken"}, key) {
		if !slices.Contains(s.tokens, n) {
			s.tokens = append(s.tokens, n)
		}
		n = int64(slices.Index(s.tokens, n)) + 1
	}
	return fmt.Sprint(n)
}

// elementsOf are those of a document or an array.
func elementsOf(v bson.RawValue) []bson.RawElement {
	if v.Type != bson.TypeEmbeddedDocument && v.Type != bson.TypeArray {
		return nil
	}
	all, _ := bson.Raw(v.Value).Elements()
	return all
}
