package mutants

import (
	"bytes"
	"fmt"
	"regexp"
)

// verdict describes a failure of tests.
type verdict struct {
	test string // the first that failed; "" if it is not one test's failure
	how  string // in a word, if it is not a plain failure
}

func (v verdict) String() string {
	switch {
	case v.how == "":
		return v.test
	case v.test == "":
		return v.how
	default:
		return fmt.Sprintf("%s (%s)", v.test, v.how)
	}
}

var (
	failedTest  = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)
	runningTest = regexp.MustCompile(`(?m)^running tests:\n\t+([^/\s]+)`)
)

// failure reads the output of a failed test binary.
func failure(out []byte) (v verdict) {
	if m := failedTest.FindSubmatch(out); m != nil {
		v.test = string(m[1])
	}
	switch {
	case bytes.Contains(out, []byte("panic: test timed out after")):
		if m := runningTest.FindSubmatch(out); v.test == "" && m != nil {
			v.test = string(m[1])
			v.how = "timeout"
		} else if v.test == "" {
			v.how = "timeout"
		}
	case bytes.Contains(out, []byte("\npanic: ")), bytes.HasPrefix(out, []byte("panic: ")):
		v.how = "panic"
	case v.test == "" && bytes.Contains(out, []byte("left goroutines behind")):
		v.how = "goroutines left behind"
	}
	return v
}

// tail is the end of a command's output.
func tail(out []byte) []byte {
	const most = 2000
	return out[max(0, len(out)-most):]
}
