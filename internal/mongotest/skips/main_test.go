package main

import (
	"strings"
	"testing"
)

func TestCount(t *testing.T) {
	const page = "| `TestNamed` | in memory |"
	run := strings.NewReplacer("'", `"`).Replace(`{'Action':'run','Package':'p','Test':'TestNamed'}
{'Action':'output','Package':'p','Test':'TestNamed','Output':'only a database has it\n'}
{'Action':'skip','Package':'p','Test':'TestNamed'}
{'Action':'run','Package':'p','Test':'TestFails/part'}
{'Action':'output','Package':'p','Test':'TestFails/part','Output':'it has failed\n'}
{'Action':'fail','Package':'p','Test':'TestFails/part'}
{'Action':'run','Package':'p','Test':'TestQuick'}
{'Action':'output','Package':'p','Test':'TestQuick','Output':'it has a server of its own, in virtual time: unset\n'}
{'Action':'skip','Package':'p','Test':'TestQuick'}
{'Action':'output','Package':'p','Output':'FAIL p 1s\n'}
`)
	var out strings.Builder
	const want = "it has failed\nFAIL p 1s\n3 tests, of which 1 are skipped because they have a server in virtual time, and 1 others\n"
	if err := count(strings.NewReader(run), page, &out); err != nil || out.String() != want {
		t.Errorf("%v: %s", err, out.String())
	}
	for in, why := range map[string]string{
		run:                  "p TestNamed",
		`{"Action":"start"}`: "no tests",
		"ok p 1s":            "invalid character",
	} {
		if err := count(strings.NewReader(in), "", &out); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v", in, err)
		}
	}
}
