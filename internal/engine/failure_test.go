package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// The cases follow the documentation's list of the driver's errors, sentence by
// sentence. The tests build the driver's error types as the driver does; in
// faults_test.go the driver builds them itself.
func TestClassify(t *testing.T) {
	t.Parallel()
	type verdict struct {
		certain, again, answered bool
		cause                    Cause
	}
	unknown, refused, answered := verdict{}, verdict{certain: true}, verdict{answered: true}
	reply := func(code int32, labels ...string) mongo.CommandError {
		return mongo.CommandError{Code: code, Message: fmt.Sprintf("code %d", code), Labels: labels}
	}
	says := func(code int32, message string) mongo.CommandError {
		return mongo.CommandError{Code: code, Message: message}
	}
	broken := func(err error) error {
		return mongo.CommandError{Message: err.Error(), Labels: []string{"NetworkError"}, Wrapped: err}
	}
	concern, err := bson.Marshal(bson.M{"ok": 1, "value": bson.M{"_id": 1}, "writeConcernError": bson.M{"code": 64}})
	if err != nil {
		t.Fatal(err)
	}

	for sentence, cases := range map[string]map[string]struct {
		err  error
		want verdict
	}{
		"Cancel, deadline, network error, cleared pool: the write may have happened": {
			"cancelled":                       {context.Canceled, unknown},
			"deadline":                        {context.DeadlineExceeded, unknown},
			"deadline on the wire":            {broken(context.DeadlineExceeded), unknown},
			"cancelled on the wire":           {broken(context.Canceled), unknown},
			"connection reset":                {broken(&net.OpError{Op: "read", Err: os.NewSyscallError("read", errors.New("reset"))}), unknown},
			"socket timeout":                  {broken(&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}), unknown},
			"connection closed":               {broken(io.EOF), unknown},
			"no label, and no code":           {mongo.CommandError{Message: "?"}, unknown},
			"a code beside the network label": {reply(2, "NetworkError"), unknown},
			"a code beside a timeout label":   {reply(2, "NetworkTimeoutError"), unknown},
			"a code in front of a deadline":   {mongo.CommandError{Code: 2, Wrapped: context.DeadlineExceeded}, unknown},
			"something else":                  {errors.New("?"), unknown},
			"wrapped":                         {fmt.Errorf("while: %w", broken(io.EOF)), unknown},
		},
		"A write-concern error: the write may have happened": {
			"exception":                    {mongo.WriteException{WriteConcernError: &mongo.WriteConcernError{Code: 64}}, unknown},
			"exception by pointer's code":  {mongo.WriteException{WriteConcernError: &mongo.WriteConcernError{Code: 100}, Labels: []string{"NoWritesPerformed"}}, answered},
			"beside a write error":         {mongo.WriteException{WriteConcernError: &mongo.WriteConcernError{Code: 64}, WriteErrors: mongo.WriteErrors{{Code: 121}}}, unknown},
			"in the raw reply of an error": {mongo.CommandError{Code: 2, Raw: concern}, unknown},
			"in it, and a label beside it": {mongo.CommandError{Code: 2, Raw: concern, Labels: []string{"NoWritesPerformed"}}, unknown},
		},
		"Not executed is certain for: the library's own checks": {
			"certain": {certain(errors.New("no")), refused},
			"foreign": {&Failure{Certain: true, Cause: CauseForeign, err: errForeign}, verdict{certain: true, cause: CauseForeign}},
			"wrapped": {fmt.Errorf("read: %w", &Failure{Certain: true, Cause: CauseForeign, err: errForeign}), verdict{certain: true, cause: CauseForeign}},
		},
		"… marshalling errors, a disconnected client": {
			"marshal":      {mongo.MarshalError{Value: 1, Err: errors.New("no encoder")}, refused},
			"nil document": {mongo.ErrNilDocument, refused},
			"nil value":    {fmt.Errorf("filter: %w", mongo.ErrNilValue), refused},
			"map as hint":  {mongo.ErrMapForOrderedArgument{ParamName: "hint"}, refused},
			"disconnected": {mongo.ErrClientDisconnected, refused},
			"wrapped":      {fmt.Errorf("x: %w", mongo.ErrClientDisconnected), refused},
		},
		"… the label NoWritesPerformed": {
			"alone":                       {reply(91, "NoWritesPerformed"), refused},
			"beside RetryableWriteError":  {reply(189, "RetryableWriteError", "NoWritesPerformed"), refused},
			"beside the network's":        {mongo.CommandError{Labels: []string{"NetworkError", "NoWritesPerformed"}}, refused},
			"of an exception":             {mongo.WriteException{Labels: []string{"NoWritesPerformed"}, WriteErrors: mongo.WriteErrors{{Code: 50}}}, refused},
			"another label says nothing":  {reply(0, "SystemOverloadedError"), unknown},
			"a retryable one is no proof": {reply(2, "RetryableWriteError"), unknown},
		},
		"… the codes of refusals": {
			"bad value":                  {reply(2), refused},
			"unauthorized":               {reply(13), refused},
			"duplicate key":              {reply(11000), refused},
			"an exception's write error": {mongo.WriteException{WriteErrors: mongo.WriteErrors{{Code: 2}}}, refused},
			"several":                    {mongo.WriteException{WriteErrors: mongo.WriteErrors{{Code: 2}, {Code: 11000}}}, refused},
			"several, one not of it":     {mongo.WriteException{WriteErrors: mongo.WriteErrors{{Code: 2}, {Code: 40635}}}, answered},
			"without the shard key":      {reply(61), verdict{certain: true, cause: CauseShardKey}},
			"no majority reads":          {reply(148), verdict{certain: true, cause: CauseUnsupported}},
		},
		"A write-concern error that stays is an answer, however often it is asked for": {
			"of an exception":     {mongo.WriteException{WriteConcernError: &mongo.WriteConcernError{Code: 100}}, answered},
			"one that passes":     {mongo.WriteException{WriteConcernError: &mongo.WriteConcernError{Code: 64}}, unknown},
			"no errors, no label": {mongo.WriteException{}, answered},
		},
		"A member that steps down says it without a label where retryable writes are off": {
			"NotWritablePrimary":       {reply(10107), unknown},
			"InterruptedAtShutdown":    {reply(11600), unknown},
			"InterruptedDueToReplSt.":  {reply(11602), unknown},
			"PrimarySteppedDown":       {reply(189), unknown},
			"ShutdownInProgress":       {reply(91), unknown},
			"HostUnreachable":          {reply(6), unknown},
			"NetworkTimeout":           {reply(89), unknown},
			"ExceededTimeLimit":        {reply(262), unknown},
			"NotPrimaryNoSecondaryOk":  {reply(13435), unknown},
			"NotPrimaryOrSecondary":    {reply(13436), unknown},
			"WriteConcernTimeout":      {reply(64), unknown},
			"SocketException":          {reply(9001), unknown},
			"HostNotFound":             {reply(7), unknown},
			"in an exception's errors": {mongo.WriteException{WriteErrors: mongo.WriteErrors{{Code: 10107}}}, unknown},
		},
		"A validator (121), a view (166), a capped collection: say so by name": {
			"validator": {reply(121), verdict{certain: true, cause: CauseValidator}},
			"view":      {reply(166), verdict{certain: true, cause: CauseView}},
			"capped":    {says(10003, "Cannot change the size of a document in a capped collection: 1 != 2"), verdict{certain: true, cause: CauseCapped}},
		},
		"A server that refuses the pipeline or $$NOW gets ErrUnsupportedServer": {
			"no pipelines":      {says(14, "BSON field 'findAndModify.update' is the wrong type 'array'"), verdict{certain: true, cause: CauseUnsupported}},
			"update not parsed": {says(9, "Either an update or remove=true must be specified"), verdict{certain: true, cause: CauseUnsupported}},
			"a filter's type":   {says(14, "$in needs an array"), refused},
			"no $$NOW":          {says(17276, "Use of undefined variable: NOW"), verdict{certain: true, cause: CauseUnsupported}},
			"unknown operator":  {says(168, "Unrecognized expression '$toLong'"), verdict{certain: true, cause: CauseUnsupported}},
			"unknown stage":     {says(40324, "Unrecognized pipeline stage name: '$set'"), verdict{certain: true, cause: CauseUnsupported}},
			"not implemented":   {reply(238), verdict{certain: true, cause: CauseUnsupported}},
			"not supported":     {reply(115), verdict{certain: true, cause: CauseUnsupported}},
			"removed":           {reply(303), verdict{certain: true, cause: CauseUnsupported}},
		},
	} {
		for name, c := range cases {
			t.Run(sentence+"/"+name, func(t *testing.T) {
				err := classify(c.err)
				f := AsFailure(err)
				if got := (verdict{f.Certain, f.Again, f.Answered, f.Cause}); got != c.want {
					t.Errorf("%v\nis   %+v\nwant %+v", c.err, got, c.want)
				}
				if !errors.Is(err, c.err) && f.Unwrap() == nil {
					t.Error("the driver's error can't be reached")
				}
				if err.Error() != c.err.Error() {
					t.Errorf("the text is %q", err)
				}
			})
		}
	}
}

// An answer after the write, or from a router that doesn't know what the shard
// did, is no refusal. The first group passes by itself and is repeated for as
// long as the caller waits; the second may come for ever.
func TestAnswersThatProveNothing(t *testing.T) {
	t.Parallel()
	for answered, codes := range map[bool][]int32{
		false: {
			6, 7, 24, 50, 64, 89, 90, 91, 133, 189, 202, 262, 279, 281, 282, 290, 355, 407, 453,
			9001, 10107, 11600, 11601, 11602, 13435, 13436, 46841, 91331,
		},
		true: {
			1, 8, 79, 96, 100, 217, 10334, 40606, 40607, 40608, 40609, 40611, 40612, 40613, 40635, 40638, 5637601, 5637602,
			1234567, // of a later version
		},
	} {
		for _, code := range codes {
			f := AsFailure(classify(mongo.CommandError{Code: code, Message: "the server says so"}))
			if f.Certain || f.Answered != answered || f.Cause != CauseOther {
				t.Errorf("code %d: certain %v, answered %v, cause %v", code, f.Certain, f.Answered, f.Cause)
			}
		}
	}
}

// The codes in the documentation are those in the code.
func TestErrorCodesAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/error-codes.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]proof{}
	var section proof
	for line := range strings.Lines(string(page)) {
		if title, found := strings.CutPrefix(line, "## "); found {
			section = proof(strings.ToLower(strings.TrimSpace(title)))
		}
		if row := regexp.MustCompile(`^\| (\d.*?) \| (.*) \|$`).FindStringSubmatch(strings.TrimSpace(line)); row != nil {
			documented[row[1]+" "+row[2]] = section
		}
	}
	for i, r := range refusals {
		codes := strconv.Itoa(r.from)
		if r.to > r.from {
			codes += "–" + strconv.Itoa(r.to)
		}
		row := codes + " " + r.name
		if documented[row] != r.why {
			t.Errorf("the page has no row %q where %s", row, r.why)
		}
		delete(documented, row)
		for _, code := range passing {
			if r.from <= code && code <= r.to {
				t.Errorf("code %d is both refused and passing", code)
			}
		}
		for _, other := range refusals[:i] {
			if r.from <= other.to && other.from <= r.to {
				t.Errorf("%q and %q have codes in common", r.name, other.name)
			}
		}
	}
	rows, err := json.Marshal(passing)
	if err != nil {
		t.Fatal(err)
	}
	if list := strings.ReplaceAll(strings.Trim(string(rows), "[]"), ",", ", "); !strings.Contains(strings.Join(strings.Fields(string(page)), " "), list) {
		t.Errorf("the page does not list the codes that pass: %s", list)
	}
	for row, section := range documented {
		t.Errorf("the page has %q where %s, the code has not", row, section)
	}
}

// An error of which nothing is known counts as the worst one.
func TestAsFailure(t *testing.T) {
	t.Parallel()
	odd := errors.New("odd")
	if f := AsFailure(odd); f.Certain || f.Again || f.Cause != CauseOther || !errors.Is(f, odd) || f.Error() != "odd" {
		t.Errorf("%+v", f)
	}
	inner := &Failure{Certain: true, err: odd}
	if f := AsFailure(fmt.Errorf("acquire: %w", inner)); f != inner {
		t.Errorf("%+v", f)
	}
}
