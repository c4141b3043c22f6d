package main

import (
	"net/http"
	"strings"
	"testing"
)

// is checks a reply.
func (a *application) is(got reply, status int, says ...string) {
	a.Helper()
	if got.status != status {
		a.Errorf("it answers %d, want %d: %s", got.status, status, got.body)
	}
	for _, word := range says {
		if !strings.Contains(got.body, word) {
			a.Errorf("it doesn't say %q: %s", word, got.body)
		}
	}
}

func TestOneEditsAndAnotherBreaksTheLock(t *testing.T) {
	a := newApplication(t)
	a.insert("welcome")
	ada := a.open("Ada", "welcome")
	bob := form{page: ada.page, User: "Bob"}
	a.is(a.post("touch", ada), http.StatusNoContent)

	conflict := a.post("edit", bob)
	a.is(conflict, http.StatusConflict, "Ada has been editing this page since", "UTC")

	ada.Text = "one"
	a.is(a.post("save", ada, "then", "go on"), http.StatusOK, "Ada edits welcome")
	ada.Saves++
	again := a.post("break", bob, "entry", conflict.hidden("entry"))
	a.is(again, http.StatusConflict, "Ada has been editing this page since") // and has saved since Bob looked
	opened := a.post("break", bob, "entry", again.hidden("entry"))
	a.is(opened, http.StatusOK, "Bob edits welcome")
	bob.Token, bob.Saves = opened.hidden("token"), 1

	a.is(a.post("touch", ada), http.StatusConflict)
	ada.Text = "two <of Ada's>"
	for _, then := range []string{"go on", "close"} {
		a.is(a.post("save", ada, "then", then), http.StatusConflict, "Not saved", "Your lock is gone", "two &lt;of Ada&#39;s&gt;")
	}
	bob.Text = "three"
	a.is(a.post("save", bob, "then", "close"), http.StatusSeeOther)
	if got, want := a.stored("welcome"), (page{"welcome", "three", 2}); got != want {
		t.Errorf("the page is %+v, want %+v", got, want)
	}
	a.open("Ada", "welcome")
}

func TestSaveIsTwoCommands(t *testing.T) {
	a := newApplication(t)
	a.insert("welcome")
	f := a.open("Ada", "welcome")
	before := a.commands.Load()
	a.is(a.post("save", f, "then", "close"), http.StatusSeeOther)
	if n := a.commands.Load() - before; n != 2 {
		t.Errorf("a save took %d commands, want 2", n)
	}
}

func TestAnotherTabHasSaved(t *testing.T) {
	a := newApplication(t)
	a.insert("welcome")
	f := a.open("Ada", "welcome")
	a.is(a.post("save", f, "then", "go on"), http.StatusOK)
	a.is(a.post("save", f, "then", "go on"), http.StatusConflict, "Not saved", "another tab")
	f.Saves++
	a.is(a.post("save", f, "then", "close"), http.StatusSeeOther)
}

func TestCancelReleases(t *testing.T) {
	a := newApplication(t)
	a.insert("welcome")
	f := a.open("Ada", "welcome")
	a.is(a.post("cancel", f), http.StatusSeeOther)
	a.is(a.post("cancel", f), http.StatusSeeOther) // of a form that is closed
	a.is(a.post("edit", form{page: f.page, User: "Bob"}), http.StatusOK, "Bob edits welcome")
}

func TestOddRequests(t *testing.T) {
	a := newApplication(t)
	a.insert("welcome")
	f := a.open("Ada", "welcome")
	missing, nobody, torn, unnumbered := f, f, f, f
	missing.ID, nobody.User, torn.Token, unnumbered.Saves = "nowhere", "", f.Token[1:], -1
	a.is(a.post("edit", missing), http.StatusNotFound)
	a.is(a.post("edit", nobody), http.StatusBadRequest)
	a.is(a.post("touch", torn), http.StatusBadRequest)
	a.is(a.post("save", torn), http.StatusBadRequest, "Not saved")
	a.is(a.post("save", unnumbered, "saves", "x"), http.StatusConflict, "Not saved")
	a.is(a.post("break", f, "entry", "x"), http.StatusBadRequest)
}
