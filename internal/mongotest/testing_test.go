package mongotest

import (
	"strings"
	"testing"
)

func TestMain(m *testing.M) { Main(m) }

// .ci/test-against reads it.
func TestDescription(t *testing.T) {
	URI(t)
	t.Logf("it is %s", shared.server.Description())
	if d := shared.server.Description(); testURI() == "" && d != "locktest, in this process: shows behaviour, proves nothing about MongoDB" {
		t.Errorf("it is %s", d)
	}
	for _, uri := range []string{"mongodb://ann:geheim@/", "mongodb://ann:geh:eim@localhost"} {
		if _, err := Open(t.Context(), uri); err == nil || strings.Contains(err.Error(), "geh") {
			t.Errorf("a wrong URI: %v", err)
		}
	}
}

func TestDatabaseName(t *testing.T) {
	for _, test := range []string{"TestÄ/with a very long name/that goes on and on/and.has$odd characters", "T", ""} {
		name := databaseName(test)
		if len(name) > 63 || strings.ContainsFunc(name, func(r rune) bool { return r > 0x7f || strings.ContainsRune(`/\. "$*<>:|?`, r) }) {
			t.Errorf("the database for %q is called %q", test, name)
		}
	}
}
