package main

import (
	"strings"
	"testing"
)

// A row says what the tests said: a test counts once, a package that failed without a test, too.
func TestRow(t *testing.T) {
	event := func(action, test, output string) string {
		return `{"Action":"` + action + `","Package":"p","Test":"` + test + `","Output":"` + output + `"}` + "\n"
	}
	skip := func(test, why string) string {
		return event("output", test, `    a_test.go:7: `+why+`\n`) + event("output", test, `--- SKIP\n`) + event("skip", test, "")
	}
	for _, c := range []struct{ events, skips, failures string }{
		{event("pass", "TestA", "") + event("pass", "TestA/part", "") + event("pass", "TestB", "") +
			event("output", "TestHistories", `    a_test.go:1: histories: 5000 operations, 2 violations\n`), "0", ""},
		{event("pass", "TestA", "") + skip("TestB", "no collation") + skip("TestC/part", "no | here") + skip("TestD", "no collation"),
			`3: 2 no collation; 1 no \| here`, ""},
		{event("output", "TestB", `it broke\n`) + event("fail", "TestB", "") + event("fail", "", ""), "0", "FAIL p TestB\nit broke\nFAIL p\n"},
		{event("fail", "", ""), "0", "FAIL p\n"},
	} {
		r, err := read(strings.NewReader(c.events))
		if err != nil || r.skips() != c.skips || r.failures.String() != c.failures || (r.failed == 1) != (c.failures != "") {
			t.Errorf("%+v, %v of\n%s", r, err, c.events)
		}
		if strings.Contains(c.events, "histories") && (r.passed != 2 || r.operations != "5000" || r.violations != "2") {
			t.Errorf("%+v of\n%s", r, c.events)
		}
	}
}
