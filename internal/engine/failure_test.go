package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// The cases follow the documentation's list of the driver's errors, sentence by
// sentence. The tests build the driver's error types as the driver does; in
// send_test.go the driver builds them itself.
func TestClassify(t *testing.T) {
	t.Parallel()
	type verdict struct {
		nothing, passes bool
		cause           Cause
	}
	unknown, refused, stays, unmoved := verdict{passes: true}, verdict{nothing: true}, verdict{}, verdict{nothing: true, passes: true}
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
			"exception by pointer's code":  {mongo.WriteException{WriteConcernError: &mongo.WriteConcernError{Code: 100}}, stays},
			"beside a write error":         {mongo.WriteException{WriteConcernError: &mongo.WriteConcernError{Code: 64}, WriteErrors: mongo.WriteErrors{{Code: 121}}}, unknown},
			"in the raw reply of an error": {mongo.CommandError{Code: 2, Raw: concern}, unknown},
			"in it, and labels beside it":  {mongo.CommandError{Code: 2, Raw: concern, Labels: overload}, unknown},
			"an exception's, and labels":   {mongo.WriteException{WriteConcernError: &mongo.WriteConcernError{Code: 100}, Labels: overload}, unknown},
		},
		"Not executed is certain for: the library's own checks": {
			"certain": {certain(errors.New("no")), refused},
			"foreign": {&Failure{Nothing: true, Cause: CauseForeign, err: errForeign}, verdict{nothing: true, cause: CauseForeign}},
			"wrapped": {fmt.Errorf("read: %w", &Failure{Nothing: true, Cause: CauseForeign, err: errForeign}), verdict{nothing: true, cause: CauseForeign}},
		},
		"… marshalling errors, a disconnected client": {
			"marshal":      {mongo.MarshalError{Value: 1, Err: errors.New("no encoder")}, refused},
			"disconnected": {mongo.ErrClientDisconnected, refused},
			"wrapped":      {fmt.Errorf("x: %w", mongo.ErrClientDisconnected), refused},
		},
		"… both labels of an overloaded server": {
			"both":                      {reply(462, overload...), unmoved},
			"with any code":             {reply(1234567, overload...), unmoved},
			"with a refusal's":          {reply(2, overload...), unmoved},
			"of an exception":           {mongo.WriteException{Labels: overload, WriteErrors: mongo.WriteErrors{{Code: 462}}}, unmoved},
			"beside the network's":      {reply(462, append(overload, "NetworkError")...), unknown},
			"without a code":            {reply(0, overload...), unknown},
			"one of the two":            {reply(462, "SystemOverloadedError"), unknown},
			"the other one":             {reply(462, "RetryableError"), unknown},
			"a retryable write's":       {reply(91, "RetryableWriteError", "NoWritesPerformed"), unknown},
			"one, beside a refusal":     {reply(2, "RetryableError"), unmoved},
			"a transaction's says none": {reply(2, "TransientTransactionError"), refused},
		},
		"… the codes of refusals": {
			"bad value":                  {reply(2), refused},
			"unauthorized":               {reply(13), verdict{nothing: true, cause: CauseUnauthorized}},
			"a user who isn't known":     {reply(18), verdict{nothing: true, cause: CauseUnauthorized}},
			"duplicate key":              {reply(11000), refused},
			"an exception's write error": {mongo.WriteException{WriteErrors: mongo.WriteErrors{{Code: 2}}}, refused},
			"several":                    {mongo.WriteException{WriteErrors: mongo.WriteErrors{{Code: 2}, {Code: 11000}}}, refused},
			"several, one not of it":     {mongo.WriteException{WriteErrors: mongo.WriteErrors{{Code: 2}, {Code: 40635}}}, stays},
			"without the shard key":      {reply(61), verdict{nothing: true, cause: CauseShardKey}},
			"no majority reads":          {reply(148), verdict{nothing: true, cause: CauseUnsupported}},
		},
		"A write-concern error that stays is an answer, however often it is asked for": {
			"of an exception":     {mongo.WriteException{WriteConcernError: &mongo.WriteConcernError{Code: 100}}, stays},
			"one that passes":     {mongo.WriteException{WriteConcernError: &mongo.WriteConcernError{Code: 64}}, unknown},
			"no errors, no label": {mongo.WriteException{}, stays},
		},
		"A member that steps down proves nothing": {
			"NotWritablePrimary":       {reply(10107), unknown},
			"in an exception's errors": {mongo.WriteException{WriteErrors: mongo.WriteErrors{{Code: 10107}}}, unknown},
		},
		"A validator (121), a view (166), a capped collection: say so by name": {
			"validator": {reply(121), verdict{nothing: true, cause: CauseValidator}},
			"view":      {reply(166), verdict{nothing: true, cause: CauseView}},
			"capped":    {says(10003, "Cannot change the size of a document in a capped collection: 1 != 2"), verdict{nothing: true, cause: CauseCapped}},
		},
		"A server that refuses the pipeline or $$NOW gets ErrUnsupportedServer": {
			"no pipelines":      {says(14, "BSON field 'findAndModify.update' is the wrong type 'array'"), verdict{nothing: true, cause: CauseUnsupported}},
			"update not parsed": {says(9, "Either an update or remove=true must be specified"), verdict{nothing: true, cause: CauseUnsupported}},
			"a filter's type":   {says(14, "$in needs an array"), refused},
			"no $$NOW":          {says(17276, "Use of undefined variable: NOW"), verdict{nothing: true, cause: CauseUnsupported}},
			"unknown operator":  {says(168, "Unrecognized expression '$toLong'"), verdict{nothing: true, cause: CauseUnsupported}},
			"unknown stage":     {says(40324, "Unrecognized pipeline stage name: '$set'"), verdict{nothing: true, cause: CauseUnsupported}},
			"not implemented":   {reply(238), verdict{nothing: true, cause: CauseUnsupported}},
			"not supported":     {reply(115), verdict{nothing: true, cause: CauseUnsupported}},
			"removed":           {reply(303), verdict{nothing: true, cause: CauseUnsupported}},
		},
	} {
		for name, c := range cases {
			t.Run(sentence+"/"+name, func(t *testing.T) {
				err := classify(c.err)
				f := AsFailure(err)
				if got := (verdict{f.Nothing, f.Passes, f.Cause}); got != c.want {
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

// The trouble is known by its label or its code, whatever stands beside it.
func TestTroubleOfTheServer(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want Trouble
	}{
		"overload":                      {mongo.CommandError{Code: 462, Labels: overload}, Overloaded},
		"overload, and maybe executed":  {mongo.CommandError{Code: 2, Labels: overload[:1]}, Overloaded},
		"of a write-concern error":      {mongo.WriteException{WriteConcernError: &mongo.WriteConcernError{Code: 100}, Labels: overload}, Overloaded},
		"it can be repeated":            {mongo.CommandError{Code: 91, Labels: overload[1:]}, NoTrouble},
		"write conflict":                {mongo.CommandError{Code: 112}, WriteConflict},
		"write conflict of a statement": {mongo.WriteException{WriteErrors: mongo.WriteErrors{{Code: 121}, {Code: 112}}}, WriteConflict},
		"no primary":                    {mongo.CommandError{Code: 10107}, NoTrouble},
		"a broken connection":           {io.EOF, NoTrouble},
	} {
		if got := AsFailure(classify(c.err)).Trouble; got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Each code of the lists, and some others, with all combinations of labels, with and
// without a write-concern error beside it. No code is in two lists.
func TestEveryCodeWithEveryLabel(t *testing.T) {
	t.Parallel()
	nothing, passing := map[int]bool{}, map[int]bool{}
	for i, list := range []codes{unread, unrouted, uncomputed, interrupted} {
		for _, r := range list {
			for code := r[0]; code <= r[1]; code++ {
				if _, twice := nothing[code]; twice {
					t.Errorf("%d is in two lists", code)
				}
				nothing[code], passing[code] = i < 3, i == 3
			}
		}
	}
	for _, code := range []int{1, 8, 79, 96, 100, 10334, 1234567} {
		nothing[code] = false // and may stay
	}
	labels := []string{"RetryableWriteError", "NoWritesPerformed", "TransientTransactionError", "SystemOverloadedError", "RetryableError"}
	concern, err := bson.Marshal(bson.M{"ok": 0, "writeConcernError": bson.M{"code": 100}})
	if err != nil {
		t.Fatal(err)
	}
	for code, proven := range nothing {
		for set := range 1 << len(labels) {
			has := map[string]bool{}
			reply := mongo.CommandError{Code: int32(code), Message: "the server says so"}
			for i, label := range labels {
				if set&(1<<i) != 0 {
					has[label] = true
					reply.Labels = append(reply.Labels, label)
				}
			}
			passes := has["SystemOverloadedError"] || has["RetryableError"]
			overloaded := has["SystemOverloadedError"] && has["RetryableError"] && code != 50 // which the driver takes for a timeout
			f := AsFailure(classify(reply))
			if f.Nothing != (overloaded || proven) || f.Passes != (passes || passing[code]) {
				t.Errorf("code %d with %v: %+v", code, reply.Labels, f)
			}
			reply.Raw = concern
			f = AsFailure(classify(reply))
			passes = passes || code == 50 // which the driver takes for a timeout
			if f.Nothing || f.Passes != passes || f.Cause != CauseOther {
				t.Errorf("code %d with %v beside a write-concern error: %+v", code, reply.Labels, f)
			}
		}
	}
}

// What a caller's pipeline can be refused for is in a list: each code that the server in
// memory gives to an expression, a stage or an update.
func TestRefusalsOfPipelinesAreListed(t *testing.T) {
	t.Parallel()
	refusal, n := regexp.MustCompile(`(?:value\.Refuse|refusef)\((\d+)[,+]`), 0
	for _, directory := range []string{"expr", "query", "stage", "update"} {
		files, err := filepath.Glob("../../locktest/internal/" + directory + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range refusal.FindAllSubmatch(text, -1) {
				n++
				code, _ := strconv.Atoi(string(m[1]))
				if !unread.has(code) && !uncomputed.has(code) {
					t.Errorf("%s: code %d is in no list: a refusal counts as an unknown outcome", file, code)
				}
			}
		}
	}
	if n < 40 {
		t.Errorf("the server in memory gives %d codes", n)
	}
}

// An error of which nothing is known counts as the worst one.
func TestAsFailure(t *testing.T) {
	t.Parallel()
	odd := errors.New("odd")
	if f := AsFailure(odd); f.Nothing || f.Cause != CauseOther || !errors.Is(f, odd) || f.Error() != "odd" {
		t.Errorf("%+v", f)
	}
	inner := &Failure{Nothing: true, err: odd}
	if f := AsFailure(fmt.Errorf("acquire: %w", inner)); f != inner {
		t.Errorf("%+v", f)
	}
}

// A refusal is about one document if its new version is not stored.
func TestUnfitDocuments(t *testing.T) {
	t.Parallel()
	for _, r := range slices.Concat(unread, unrouted, uncomputed, interrupted) {
		want := 0
		if uncomputed.has(r[0]) {
			want = r[0]
		}
		reply := mongo.CommandError{Code: int32(r[0])}
		if got := AsFailure(classify(reply)).Unfit; got != want {
			t.Errorf("%d: %d, want %d", r[0], got, want)
		}
		for why, label := range map[string]string{"maybe executed": "NetworkError", "it passes": "RetryableError"} {
			reply.Labels = []string{label}
			if got := AsFailure(classify(reply)).Unfit; got != 0 {
				t.Errorf("%d, and %s: %d", r[0], why, got)
			}
		}
	}
}
