package browsertest

import (
	"context"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// rulesTab is a tab with the page of doclock rules --html.
type rulesTab struct {
	*testing.T
	tab context.Context
}

// openRules writes the page and opens it. A request, or anything on the console, is
// an error.
func openRules(t *testing.T) rulesTab {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.html")
	write := exec.CommandContext(t.Context(), built(t, "../../cmd/doclock", "."), "rules", "--html", file)
	if out, err := write.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p := rulesTab{t, newTab(t)}
	page := (&url.URL{Scheme: "file", Path: file}).String()
	chromedp.ListenTarget(p.tab, func(event any) {
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			if e.Request.URL != page {
				t.Errorf("the page asks for %s", e.Request.URL)
			}
		case *log.EventEntryAdded:
			t.Errorf("the log has %s", e.Entry.Text)
		case *runtime.EventConsoleAPICalled:
			t.Errorf("the console has %s", e.Type)
		case *runtime.EventExceptionThrown:
			t.Errorf("the page throws %v", e.ExceptionDetails)
		}
	})
	p.do(network.Enable(), log.Enable(), chromedp.Navigate(page))
	return p
}

func (p rulesTab) do(actions ...chromedp.Action) {
	p.Helper()
	if err := chromedp.Run(p.tab, actions...); err != nil {
		p.Fatal(err)
	}
}

// value is what an expression of the page gives.
func (p rulesTab) value(expression string) string {
	p.Helper()
	var value string
	p.do(chromedp.Evaluate("String("+expression+")", &value))
	return value
}

func (p rulesTab) want(expression, want string) {
	p.Helper()
	if got := p.value(expression); !strings.Contains(got, want) {
		p.Errorf("%s is %q, want %q in it", expression, got, want)
	}
}

func (p rulesTab) types(keys string) { p.Helper(); p.do(chromedp.KeyEvent(keys)) }

// tabsTo presses Tab until an element has the focus.
func (p rulesTab) tabsTo(id string) {
	p.Helper()
	for range 100 {
		if p.types(kb.Tab); p.value("document.activeElement.id") == id {
			return
		}
	}
	p.Fatalf("Tab doesn't reach #%s", id)
}

// The page of doclock rules --html, in one browser.
func TestRulesPage(t *testing.T) {
	p := openRules(t)
	for _, part := range []struct {
		name string
		try  func(rulesTab)
	}{
		{"agrees with the library", rulesTab.agrees},
		{"is used by the keyboard", rulesTab.isUsedByKeyboard},
		{"has an order of focus", rulesTab.hasAnOrderOfFocus},
		{"fits a phone", rulesTab.fitsAPhone},
	} {
		t.Run(part.name, func(t *testing.T) {
			p.do(chromedp.Reload())
			part.try(rulesTab{t, p.tab})
		})
	}
}

// A person edits a table by the keyboard alone, and sees what it does.
func (p rulesTab) isUsedByKeyboard() {
	const found, example = "by('findings').textContent", "by('lanes').textContent"
	p.want(found, "no faults; 2 findings")
	p.want(example, "refused 2–8, held 8–12")

	p.tabsTo("kind0-1") // a read arrives while a write is there
	p.want("document.activeElement.ariaLabel", "read arrives while write is there")
	p.types("a")
	p.want("by('effect0-1').textContent", "waits")
	p.want(found, `no faults; 1 findingstarvation: "write" can be refused`)
	p.tabsTo("kind1-1")
	p.types(kb.ArrowDown)
	p.want(found, "no faults, no findings")
	p.want(example, "waits 2–8, held 8–12")
	p.want("by('gocode').textContent", `"read":  {"write": {Kind: relations.Assertive}}`)

	p.tabsTo("allow1-1")
	p.types("2") // 02, or 20: where the caret stands is the browser's affair
	p.want("by('jsontable').textContent", `"allow": `)
	p.types("-" + kb.ArrowDown + kb.ArrowDown + kb.ArrowDown)
	p.want(found, "fault")
	p.want("by('gocode').textContent", "")

	p.tabsTo("addtag")
	p.types(kb.Enter)
	p.want("document.activeElement.id", "tag2")
	p.types("read")
	p.want(found, `1 faulttag "read": defined twice`)
	p.types(kb.Backspace + kb.Backspace + kb.Backspace + kb.Backspace + "list")
	p.want("document.querySelectorAll('thead th')[3].textContent", "list")
	p.types(kb.Tab + kb.Enter) // the button that removes it
	p.want("document.querySelectorAll('thead th').length", "3")
	p.want("document.activeElement.id", "addtag")

	p.tabsTo("preset")
	p.types("m" + kb.Tab + kb.Enter)
	p.want(found, "16 findings")
	p.tabsTo("lane0")
	p.types("X")
	p.want(example, "held 0–4")
	p.tabsTo("addlane")
	p.types(kb.Enter)
	p.want("document.activeElement.id", "lane10")
	p.types(kb.Home + kb.Tab + "0" + kb.Tab + "9") // an IS at 0, for 9 ticks
	p.want("by('lanes').lastElementChild.textContent", "refused 0–4, held 4–13")
	p.tabsTo("copygo")
	p.types(kb.Enter)
	p.want("getSelection().toString()", `"SIX": {"IX": {Kind: relations.Cooperative}`)
}

// Tab visits all that can be changed, in the order of the page, and one sees where
// one is. All of it has a name for a screen reader.
func (p rulesTab) hasAnOrderOfFocus() {
	p.do(chromedp.Evaluate(`window.stops = [...document.querySelectorAll("button, select, input, [tabindex]")].filter(e => !e.disabled && e.checkVisibility())`, nil))
	for i := range 100 {
		p.types(kb.Tab)
		if p.value("document.activeElement === document.body") == "true" {
			p.want("stops.length", fmt.Sprint(i))
			break
		}
		p.want(fmt.Sprintf("stops[%d] === document.activeElement", i), "true")
		p.want("getComputedStyle(document.activeElement).outlineStyle + ' ' + getComputedStyle(document.activeElement).outlineWidth", "solid 3px")
	}
	var names []string
	p.do(chromedp.Evaluate(`stops.map(e => e.ariaLabel || e.labels?.[0]?.textContent || e.getAttribute("aria-labelledby") || e.textContent).map(n => n.trim())`, &names))
	if slices.Contains(names, "") || slices.Contains(names, "×") {
		p.Errorf("names: %q", names)
	}
}

// On a phone the page is as wide as the phone; pictures of both widths, in light and
// dark, are left to be looked at.
func (p rulesTab) fitsAPhone() {
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1280, 400} {
			var png []byte
			p.do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
				chromedp.EmulateViewport(width, 900))
			p.want("document.documentElement.scrollWidth", fmt.Sprint(width))
			p.do(chromedp.FullScreenshot(&png, 100))
			keep(p.T, fmt.Sprintf("rules-%s-%d", scheme, width), png)
		}
	}
}
