package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// An application has two replicas, each with its own client, in virtual time.
type application struct {
	*testing.T
	mem      *locktest.Server
	pages    *mongo.Collection
	http     http.Handler
	commands atomic.Int32 // of both replicas
}

// inApplication runs a test with an application that has a page.
func inApplication(t *testing.T, test func(*application)) {
	synctest.Test(t, func(t *testing.T) {
		a := &application{T: t, mem: locktest.New(t)}
		a.pages = a.mem.Collection("pages", page{ID: "welcome"})
		var replicas []http.Handler
		for i := range 2 {
			client := a.mem.Connect(options.Client().SetMonitor(&event.CommandMonitor{
				Started: func(context.Context, *event.CommandStartedEvent) {
					a.commands.Add(1)
					time.Sleep(rand.N(time.Millisecond)) // the commands of two tabs come in any order
				},
			}))
			r, err := newReplica(fmt.Sprint("replica ", i+1), client.Database("test").Collection("pages"))
			check(err)
			t.Cleanup(func() { check(r.locks.Close(context.Background())) })
			replicas = append(replicas, r.routes())
		}
		a.http = inTurn(replicas)
		test(a)
	})
}

// stored is the page as it is in the database.
func (a *application) stored() (p page) {
	check(a.pages.FindOne(a.Context(), doclock.ID("welcome")).Decode(&p))
	return p
}

// post sends what a form of the page has.
func (a *application) post(action string, f form, more ...string) *httptest.ResponseRecorder {
	return a.send(a.Context(), action, f, more...)
}

// send is post by a browser that goes away when ctx ends.
func (a *application) send(ctx context.Context, action string, f form, more ...string) *httptest.ResponseRecorder {
	values := url.Values{"user": {f.User}, "token": {f.Token}, "text": {f.Text}, "saves": {strconv.Itoa(f.Saves)}}
	for i := 0; i < len(more); i += 2 {
		values.Set(more[i], more[i+1])
	}
	req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/"+f.ID+"/"+action, strings.NewReader(values.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	got := httptest.NewRecorder()
	a.http.ServeHTTP(got, req)
	return got
}

// hidden is the value of a hidden input.
func hidden(r *httptest.ResponseRecorder, name string) string {
	if m := regexp.MustCompile(`name="` + name + `" value="([^"]*)"`).FindStringSubmatch(r.Body.String()); m != nil {
		return m[1]
	}
	return ""
}

// breaks breaks the lock that a reply has shown.
func (a *application) breaks(f form, shown *httptest.ResponseRecorder) *httptest.ResponseRecorder {
	return a.post("break", f, "entry", hidden(shown, "entry"), "fence", hidden(shown, "fence"))
}

// open opens the form, and breaks the lock of whoever has it.
func (a *application) open(user string) form {
	a.Helper()
	f := form{page: a.stored(), User: user}
	got := a.post("edit", f)
	if got.Code == http.StatusConflict {
		got = a.breaks(f, got)
	}
	f.Token = hidden(got, "token")
	a.is(got, http.StatusOK, user+" edits welcome", f.Token)
	return f
}

// is checks a reply.
func (a *application) is(got *httptest.ResponseRecorder, status int, says ...string) {
	a.Helper()
	if got.Code != status {
		a.Errorf("it answers %d, want %d: %s", got.Code, status, got.Body)
	}
	for _, word := range says {
		if !strings.Contains(got.Body.String(), word) {
			a.Errorf("it doesn't say %q: %s", word, got.Body)
		}
	}
}

// Two tabs with one form save at the same time, through two replicas, while requests
// and replies are lost and late. At most one save is applied. The tab of an applied
// save is told so, or that the outcome is unknown; every other tab is told that
// nothing was saved, or that the outcome is unknown.
func TestDoubleSaves(t *testing.T) {
	inApplication(t, func(a *application) {
		statuses := map[int]int{}
		for round := range 100 {
			a.doubleSave(round, statuses)
		}
		t.Logf("answers: %v", statuses)
		for _, status := range []int{http.StatusOK, http.StatusSeeOther, http.StatusConflict, http.StatusBadGateway} {
			if statuses[status] == 0 {
				t.Errorf("no answer is %d", status)
			}
		}
	})
}

func (a *application) doubleSave(round int, statuses map[int]int) {
	opened := a.open("Ada")
	faults := rand.N(2) * rand.N(4)
	for range faults {
		only := []locktest.Kind{locktest.Acquires, locktest.Writes}[rand.N(2)]
		switch rand.N(3) {
		case 0:
			a.mem.LoseRequests(1<<rand.N(10), only) // many: until the replica gives up
		case 1:
			a.mem.LoseReplies(1<<rand.N(10), only)
		case 2:
			a.mem.Delay(1+rand.N(4), rand.N(time.Minute), only)
		}
	}
	var tabs sync.WaitGroup
	var texts [2]string
	var replies [2]*httptest.ResponseRecorder
	for i := range texts {
		texts[i] = fmt.Sprintf("round %d tab %d", round, i)
		tab, then := opened, []string{"go on", "close"}[rand.N(2)]
		tab.Text = texts[i]
		tabs.Go(func() { replies[i] = a.post("save", tab, "then", then) })
	}
	tabs.Wait()
	a.mem.LoseRequests(0)
	a.mem.LoseReplies(0)
	a.mem.Delay(0, 0)
	time.Sleep(time.Minute) // what is late arrives

	after, accepted, applied := a.stored(), 0, 0
	for i, got := range replies {
		statuses[got.Code]++
		wrote := after.Text == texts[i]
		if wrote {
			applied++
		}
		switch got.Code {
		case http.StatusOK, http.StatusSeeOther:
			accepted++
			if !wrote {
				a.Errorf("round %d: tab %d was told that it had saved, and it had not", round, i)
			}
		case http.StatusConflict, http.StatusServiceUnavailable:
			if wrote {
				a.Errorf("round %d: tab %d was told that it had not saved, and it had: %d %s", round, i, got.Code, got.Body)
			}
		case http.StatusBadGateway: // unknown
		default:
			a.Errorf("round %d: tab %d: %d %s", round, i, got.Code, got.Body)
		}
	}
	if after.Saves != opened.Saves+applied || applied == 0 && after.Text != opened.Text {
		a.Errorf("round %d: after %d saves of %q there are %d, and %q", round, opened.Saves, opened.Text, after.Saves, after.Text)
	}
	if faults == 0 && accepted != 1 {
		a.Errorf("round %d: %d saves were accepted without a fault, want 1", round, accepted)
	}
}

func TestOneEditsAndAnotherBreaksTheLock(t *testing.T) {
	inApplication(t, func(a *application) {
		ada := a.open("Ada")
		bob := form{page: ada.page, User: "Bob"}
		a.is(a.post("touch", ada), http.StatusNoContent)

		conflict := a.post("edit", bob)
		a.is(conflict, http.StatusConflict, "Ada has been editing this page since", "UTC")

		ada.Text = "one"
		a.is(a.post("save", ada, "then", "go on"), http.StatusOK, "Ada edits welcome")
		a.is(a.post("save", ada, "then", "go on"), http.StatusConflict, "Not saved", "another tab")
		ada.Saves++
		again := a.breaks(bob, conflict)
		a.is(again, http.StatusConflict, "Ada has been editing this page since") // and has saved since Bob looked
		opened := a.breaks(bob, again)
		a.is(opened, http.StatusOK, "Bob edits welcome")
		bob.Token, bob.Saves = hidden(opened, "token"), 1

		a.is(a.post("touch", ada), http.StatusConflict)
		ada.Text = "two <of Ada's>"
		for _, then := range []string{"go on", "close"} {
			a.is(a.post("save", ada, "then", then), http.StatusConflict, "Not saved", "Your lock is gone", "two &lt;of Ada&#39;s&gt;")
		}
		bob.Text = "three"
		before := a.commands.Load()
		a.is(a.post("save", bob, "then", "close"), http.StatusSeeOther)
		if n := a.commands.Load() - before; n != 2 {
			t.Errorf("a save took %d commands, want 2", n)
		}
		if got, want := a.stored(), (page{"welcome", "three", 2}); got != want {
			t.Errorf("the page is %+v, want %+v", got, want)
		}
	})
}

// A user whose tab is gone opens the form anew, in two commands and the detach. The old tab
// holds nothing any more.
func TestOnesOwnLockIsTakenBack(t *testing.T) {
	inApplication(t, func(a *application) {
		gone := a.open("Ada")
		before := a.commands.Load()
		again := a.open("Ada")
		if n := a.commands.Load() - before; n != 3 {
			t.Errorf("it took %d commands, want 3", n)
		}
		a.is(a.post("touch", gone), http.StatusConflict)
		a.is(a.post("save", gone, "then", "close"), http.StatusConflict, "Not saved")
		a.is(a.post("touch", again), http.StatusNoContent)
		a.is(a.post("save", again, "then", "close"), http.StatusSeeOther)
	})
}

func TestCancelAndOddRequests(t *testing.T) {
	inApplication(t, func(a *application) {
		f := a.open("Ada")
		a.is(a.post("cancel", f), http.StatusSeeOther)
		a.is(a.post("cancel", f), http.StatusSeeOther) // of a form that is closed
		a.is(a.post("edit", form{page: f.page, User: "Bob"}), http.StatusOK)
		f = a.open("Bob")

		missing, nobody, torn, unnumbered := f, f, f, f
		missing.ID, nobody.User, torn.Token, unnumbered.Saves = "nowhere", "", f.Token[1:], -1
		a.is(a.post("edit", missing), http.StatusNotFound)
		a.is(a.post("edit", nobody), http.StatusBadRequest)
		a.is(a.post("touch", torn), http.StatusBadRequest)
		a.is(a.post("save", torn), http.StatusBadRequest, "Not saved")
		a.is(a.post("save", unnumbered, "saves", "x"), http.StatusConflict, "Not saved")
		a.is(a.post("break", f, "entry", "x", "fence", "1"), http.StatusBadRequest)
		a.is(a.post("break", f, "entry", "00000000-0000-0000-0000-000000000001"), http.StatusBadRequest)
	})
}

// A browser that goes away while its form is opened leaves no lock to nobody.
func TestABrowserGoesAway(t *testing.T) {
	inApplication(t, func(a *application) {
		for _, slow := range []locktest.Kind{locktest.Acquires, locktest.Releases} {
			a.mem.Delay(1, time.Second, slow)
			ctx, cancel := context.WithTimeout(a.Context(), 300*time.Millisecond)
			a.is(a.send(ctx, "edit", form{page: a.stored(), User: "Ada"}), http.StatusServiceUnavailable)
			cancel()
			time.Sleep(2 * time.Second)
			a.is(a.post("edit", form{page: a.stored(), User: "Bob"}), http.StatusOK)
			a.is(a.post("cancel", a.open("Bob")), http.StatusSeeOther)
		}
	})
}

// A page's name comes from the URL: a redirect to it must stay on this server.
func TestARedirectStaysHere(t *testing.T) {
	inApplication(t, func(a *application) {
		f := a.open("Ada")
		elsewhere := f
		elsewhere.ID = "%2Fevil.example" // in the URL's path: a page called "/evil.example"
		if to := a.post("cancel", elsewhere).Header().Get("Location"); strings.HasPrefix(to, "//") {
			t.Errorf("it leads to %s, another host", to)
		}
		_ = a.post("cancel", f)
	})
}
