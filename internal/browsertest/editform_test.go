package browsertest

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/doclock/doclock/internal/mongotest"
)

func TestMain(m *testing.M) { mongotest.Main(m) }

func TestTwoPeopleEditAPage(t *testing.T) {
	url := start(t)
	ada, bob := newPerson(t, "Ada", url), newPerson(t, "Bob", url)

	ada.types(`input[name="user"]`, "Ada")
	ada.clicks("#edit")
	ada.sees("h1", "Ada edits welcome")
	ada.picture("1-ada-edits")

	bob.types(`input[name="user"]`, "Bob")
	bob.clicks("#edit")
	bob.sees("#who", "Ada has been editing this page since")
	bob.picture("2-bob-sees-who-edits")

	ada.types("#text", "Ada's first text.")
	ada.clicks("#goon")
	ada.sees("#saves", "1")

	// The entry that Bob has seen isn't there any more: Ada has saved since.
	bob.clicks("#break")
	bob.sees("#who", "Ada has been editing this page since")
	bob.clicks("#break")
	bob.sees("h1", "Bob edits welcome")
	bob.picture("3-bob-has-broken-the-lock")

	ada.sees("#gone", "Your lock is gone") // by the heartbeat
	ada.types("#text", "Ada's second text.")
	ada.picture("4-ada-is-warned")
	ada.clicks("#save")
	ada.sees("h1", "Not saved")
	ada.sees("#text", "Ada's second text.")
	ada.picture("5-ada-is-refused")

	bob.types("#text", "Bob's text.")
	bob.clicks("#save")
	bob.sees("#text", "Bob's text.")
	bob.sees("#saves", "2")
	bob.picture("6-bob-has-saved")

	for _, name := range []string{"replica 1", "replica 2"} {
		if !ada.replicas[name] && !bob.replicas[name] {
			t.Errorf("%s has answered nobody", name)
		}
	}
}

// start builds and starts the program, on a server of its own, because its database has a
// fixed name, and returns the page's address.
func start(t *testing.T) string {
	t.Helper()
	program := exec.Command(built(t, "../..", "./examples/editform"), "-listen", "127.0.0.1:0")
	program.Env = append(os.Environ(), "MONGODB_URI="+mongotest.Private(t).URI())
	program.Stderr = os.Stderr
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := program.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if err := program.Wait(); err != nil {
			t.Errorf("the program ended with %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(line)[1]
}

// A person has a browser of their own.
type person struct {
	*testing.T
	name     string
	tab      context.Context
	replicas map[string]bool // that have answered
}

func newPerson(t *testing.T, name, url string) *person {
	t.Helper()
	p := &person{T: t, name: name, tab: newTab(t), replicas: map[string]bool{}}
	p.do(chromedp.Navigate(url))
	return p
}

func (p *person) do(actions ...chromedp.Action) {
	p.Helper()
	if err := chromedp.Run(p.tab, actions...); err != nil {
		p.Fatalf("%s: %v", p.name, err)
	}
}

// types replaces the text of an input.
func (p *person) types(input, text string) {
	p.Helper()
	p.do(chromedp.Clear(input), chromedp.SendKeys(input, text))
}

// clicks presses a button, and waits for the page that answers.
func (p *person) clicks(button string) {
	p.Helper()
	if _, err := chromedp.RunResponse(p.tab, chromedp.Click(button)); err != nil {
		p.Fatalf("%s clicks %s: %v", p.name, button, err)
	}
}

// sees waits until an element of the page has the text.
func (p *person) sees(element, text string) {
	p.Helper()
	var footer string
	p.do(chromedp.PollFunction(
		`(element, text) => { const e = document.querySelector(element); return e && !e.hidden && e.textContent.includes(text) }`,
		nil, chromedp.WithPollingArgs(element, text)), chromedp.Text("footer", &footer))
	p.replicas[strings.TrimPrefix(footer, "answered by ")] = true
}

// picture leaves a screenshot.
func (p *person) picture(name string) {
	p.Helper()
	var png []byte
	p.do(chromedp.CaptureScreenshot(&png))
	keep(p.T, name, png)
}
