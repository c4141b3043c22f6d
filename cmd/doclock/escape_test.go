package main

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/doclock/doclock/admin"
)

// No text of others steers a terminal, in tables or in JSON, and JSON still says
// what it is.
func TestNothingSteersTheTerminal(t *testing.T) {
	p := newPlace(t)
	evil := "a\x1b[2J\u009b31m\x7f\u202e\U000e0001\r\nb"
	p.insert(evil, stored{tag: "write", owner: evil, fence: 10, expires: time.Hour})
	for _, args := range [][]string{{"ls"}, {"ls", "--json"}, {"inspect", evil}, {"inspect", evil, "--json"}, {"watch", "--rounds", "1", "--json"}, {"run", evil, "--wait", "0", "--json", "--", "true"}, {"run", evil, "--wait", "0", "--", "true"}} {
		_, stdout, stderr := p.do(args...)
		if i := strings.IndexFunc(stdout+stderr, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' }); i >= 0 || strings.Contains(stdout+stderr, "\nb") {
			t.Errorf("%q prints %q", args, stdout+stderr)
		}
	}
	var read admin.Entry
	if err := json.Unmarshal([]byte(p.want(0, nil, "ls", "--json")), &read); err != nil || read.Owner != evil || read.DocumentID.StringValue() != evil {
		t.Errorf("the JSON says %v: %v", read, err)
	}
	if s := printable("a\x9bb"); !strings.HasPrefix(s, "a") || strings.Contains(s, "\x9b") {
		t.Errorf("bytes that are no text become %q", s)
	}
}

// The longest durations have a text, too.
func TestShort(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{math.MinInt64: "-106751d23h", math.MaxInt64: "106751d23h", -time.Second: "-1s", 0: "0s", 3*time.Hour + 5*time.Minute: "3h05m"} {
		if got := short(d); got != want {
			t.Errorf("%d is %s, want %s", d, got, want)
		}
	}
}
