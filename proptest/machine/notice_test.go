package machine

import (
	"flag"
	"reflect"
	"runtime"
	"testing"

	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/proptest/model"
	"github.com/doclock/doclock/proptest/tally"
)

var all = flag.Bool("all", false, "leave out each rule in turn, not only some")

// A machine that agrees with everything proves nothing. With a rule left out of
// the model, it must not agree with the engine.
func TestNotices(t *testing.T) {
	rules := []string{
		"FenceInRenew", "FenceInWrite", "Maximum", "RepeatExtends", "Pruning", "CooperativeBlocks",
		"ConfirmNeverCreates", "UnknownRefuses", "UnknownBlocks", "HeldOrEarlier", "JoinRaisesFence", "Numbering",
		"FenceInHandoff", "SuccessorTries", "ReleaseAnyway", "WaitingMustBeThere", "WaitingKeepsPlace",
		"SetComparesFence", "SetUnsetsNumber", "SetPushesDone",
		"FenceInDetach", "DetachExtends", "NewIDAtResume", "NewFenceAtResume", "ResumeRaisesFence", "ResumeUnsetsNumber",
		"TakeoverHoldsOut", "ResumeAttaches", "KeyNeedsFence", "HoldDropsKey", "SetUnsetsKey",
	}
	if !*all {
		rules = []string{"FenceInRenew", "RepeatExtends", "Pruning", "JoinRaisesFence", "ReleaseAnyway", "SetPushesDone", "ResumeUnsetsNumber"}
	}
	defer set("rapid.shrinktime", "0s")()
	db := locktest.New().Client().Database("notices")
	for _, rule := range rules {
		b := &bench{coll: db.Collection("documents"), count: &tally.Tally{}}
		reflect.ValueOf(&b.model.Without).Elem().FieldByName(rule).SetBool(true)
		s := &sham{T: t}
		over := make(chan struct{})
		go func() {
			defer close(over)
			b.check(s, 2000, 30, EngineRuns, b.engineRun)
		}()
		<-over
		t.Logf("without %s: %d runs agreed", rule, b.count.Checks[EngineRuns])
		if !s.failed || b.count.Violations[EngineRuns] != 1 {
			t.Errorf("without %s the machine notices nothing", rule)
		}
	}
	if (model.Protocol{}) != (&bench{}).model {
		t.Error("a bench's model is not the protocol as written")
	}
}

// sham is a test that should fail.
type sham struct {
	*testing.T
	failed bool
}

func (s *sham) Logf(string, ...any)   {}
func (s *sham) Log(...any)            {}
func (s *sham) Failed() bool          { return s.failed }
func (s *sham) Fail()                 { s.failed = true }
func (s *sham) Errorf(string, ...any) { s.failed = true }
func (s *sham) Error(...any)          { s.failed = true }
func (s *sham) Fatalf(string, ...any) { s.FailNow() }
func (s *sham) Fatal(...any)          { s.FailNow() }
func (s *sham) FailNow() {
	s.failed = true
	runtime.Goexit()
}
