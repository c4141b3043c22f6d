package verdicts

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // the stacks of panics
	goleak.VerifyTestMain(m)
}

var update = flag.Bool("update", false, "write the lists anew")

const page = "../../docs/errors.md"

// TestVerdicts tries each call with each failure, checks the verdicts, and compares
// them with the page.
func TestVerdicts(t *testing.T) {
	old, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(old)
	for _, section := range []struct {
		mark     string
		failures []failure
		calls    []call
		check    func(*world, call, error)
	}{
		{"<!-- functions -->\n", ofFunctions, functions, held},
		{"<!-- leases -->\n", ofLeases, underLeases, ended},
		{"<!-- acquires -->\n", ofAcquires, acquires, acquired},
		{"<!-- tickets -->\n", ofEntries, ofTickets, acquired},
		{"<!-- operators -->\n", common, byOperators, operated},
	} {
		cells := map[string][]string{}
		for _, c := range section.calls {
			for _, f := range section.failures {
				cells[c.name] = append(cells[c.name], try(t, f, c, section.check))
			}
		}
		before, rest, _ := strings.Cut(text, section.mark)
		_, after, marked := strings.Cut(rest, "<!-- end -->")
		if !marked {
			t.Fatalf("%s has no %s", page, section.mark)
		}
		text = before + section.mark + render(section.failures, section.calls, cells) + "<!-- end -->" + after
	}
	switch {
	case *update:
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	case text != string(old):
		t.Errorf("%s says something else; write it with -update:\n%s", page, text)
	}
}

func try(t *testing.T, f failure, c call, check func(*world, call, error)) (cell string) {
	t.Run(c.name+"/"+f.name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, c.opts...)
			w.failure = f
			if c.begin != nil {
				c.begin(w)
			}
			w.relied = time.Now()
			if !c.inside {
				f.arm(w)
			}
			err, panicked := w.sent(c)
			cell = words(err, w.returned)
			if panicked {
				cell = "panic"
			}
			if w.before() {
				cell += " †"
			}
			if !panicked {
				check(w, c, err)
			}
		})
	})
	return cell
}

// sent is the error of a call, or that the caller's own panic has come out of it.
func (w *world) sent(c call) (err error, panicked bool) {
	defer func() {
		if value := recover(); value == errOwn {
			panicked = true
		} else if value != nil {
			panic(value)
		}
	}()
	return c.send(w), false
}

func acquired(w *world, c call, err error) {
	ofEntries := w.ticket != nil || w.token != "" // whose loss is another thing
	if errors.Is(err, doclock.ErrNotAcquired) && w.ran || count(err) > 1 && !ofEntries {
		w.Errorf("%v; its function ran: %t", err, w.ran)
	}
	if hidden := c.name == "Cancel" || c.name == "Touch"; err != nil && errors.Is(err, doclock.ErrNotAcquired) == hidden {
		w.Errorf("it is ErrNotAcquired, or should be: %v", err)
	}
	if errors.Is(err, doclock.ErrNotFound) && !w.rivals {
		w.Errorf("the document is free: %v", err)
	}
	if strings.Contains(c.name, "TakeOver") {
		if taken := w.taken(); err == nil && !taken || err != nil && taken && !mayHaveEnded(err) {
			w.Errorf("%v, and the named lease was ended: %t", err, taken)
		}
	}
	if strings.Contains(c.name, "before fn") && err == nil && !w.ran {
		w.Error("its function never ran")
	}
}

func ended(w *world, c call, err error) {
	if count(err) > 1 && c.name != keepAlive {
		w.Errorf("several verdicts: %v", err)
	}
	ends := strings.Contains(c.name, "Release") || c.name == "Delete" || c.name == "Detach"
	if ends && w.before() && !compensates(err) {
		w.Errorf("another program was let in before the call, and the error is %v", err)
	}
}

// held checks the verdict of a call that held a lock around a function.
func held(w *world, c call, err error) {
	if count(err) > 1 {
		w.Errorf("several verdicts: %v", err)
	}
	if errors.Is(err, doclock.ErrNotAcquired) {
		w.Errorf("its function ran: %v", err)
	}
	lost := (*doclock.LostError)(nil)
	if named := errors.As(err, &lost); named != errors.Is(err, doclock.ErrLost) || named && lost.DocumentID.AsInt64() != 1 {
		w.Errorf("the loss is %+v, and the error is %v", lost, err)
	}
	if c.name == "Lead" {
		return // it has campaigned again, and returned what the next term has
	}
	switch {
	case w.before() && !compensates(err):
		w.Errorf("another program was let in while fn worked, and the error is %v", err)
	case !w.before() && errors.Is(err, doclock.ErrLost):
		w.Errorf("nobody was let in, and the error is %v", err)
	case w.returned != nil && !errors.Is(err, w.returned) && !strings.Contains(err.Error(), strings.TrimPrefix(w.returned.Error(), "doclock: ")):
		w.Errorf("fn returned %v, and the error is %v", w.returned, err)
	}
}

// operated checks the verdict of an operator's call: nothing that it names is missing.
func operated(w *world, c call, err error) {
	if count(err) > 0 && !errors.Is(err, doclock.ErrOutcomeUnknown) || errors.Is(err, admin.ErrNoEntry) || errors.Is(err, doclock.ErrNotFound) {
		w.Errorf("%v", err)
	}
	ends := c.name == "Break" || strings.HasPrefix(c.name, "Remove")
	if gone := w.gone(); ends && err == nil != gone && !errors.Is(err, doclock.ErrOutcomeUnknown) {
		w.Errorf("%v, and the entry is gone: %t", err, gone)
	}
}

// compensates says what the one rule of docs/errors.md says of an error.
func compensates(err error) bool {
	return errors.Is(err, doclock.ErrLost) || errors.Is(err, doclock.ErrOutcomeUnknown)
}

// render is a line for all failures with the same cells: what some calls return, and what all others do. A panic, which
// all commands have in common, is left out.
func render(failures []failure, calls []call, cells map[string][]string) string {
	var lines [][]string // of names
	rows := map[string]string{}
	for i, f := range failures {
		from := map[string][]string{}
		var verdicts []string
		for _, c := range calls {
			cell := cells[c.name][i]
			if of, several := strings.CutPrefix(c.name, "Leases."); several && cells[of] != nil && cells[of][i] == cell {
				continue // it is as of one lease
			}
			if from[cell] == nil {
				verdicts = append(verdicts, cell)
			}
			from[cell] = append(from[cell], c.name)
		}
		if from["panic"] != nil && !slices.ContainsFunc(verdicts, func(v string) bool { return v != "panic" && v != "nil" }) {
			continue
		}
		most := slices.MaxFunc(verdicts, func(a, b string) int { return len(from[a]) - len(from[b]) })
		var said []string
		for _, verdict := range verdicts {
			if verdict != most {
				said = append(said, verdict+" ("+strings.Join(from[verdict], ", ")+")")
			}
		}
		rows[f.name] = most
		if said != nil {
			rows[f.name] = strings.Join(said, "; ") + "; else " + most
		}
		lines = joined(lines, f.name, func(other string) bool { return rows[other] == rows[f.name] })
	}
	var text strings.Builder
	for _, of := range lines {
		fmt.Fprintf(&text, "- *%s*: %s.\n", strings.Join(of, "; "), rows[of[0]])
	}
	return text.String()
}

// joined adds a name to the names that are like it, or to none.
func joined(all [][]string, name string, like func(string) bool) [][]string {
	if i := slices.IndexFunc(all, func(of []string) bool { return like(of[0]) }); i >= 0 {
		all[i] = append(all[i], name)
		return all
	}
	return append(all, []string{name})
}
