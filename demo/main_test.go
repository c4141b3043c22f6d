package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/mongotest"
)

// The workers are this test program, started again.
func TestMain(m *testing.M) {
	if os.Getenv(workerEnv) != "" {
		os.Exit(work(os.Stdin, os.Stdout))
	}
	mongotest.Main(m)
}

func TestLocksPreventDanglingReferences(t *testing.T) {
	t.Setenv("MONGODB_URI", mongotest.URI(t))
	var out, progress bytes.Buffer
	status := run(t.Context(), []string{"-json", "-duration", "1s", "-goroutines", "8", "-seed", "7"}, &out, &progress)
	if status != 0 {
		t.Fatalf("exit status %d, want 0\n%s\n%s", status, &progress, &out)
	}
	var got report
	decoder := json.NewDecoder(&out)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&got); err != nil {
		t.Fatalf("the output is not the report: %v", err)
	}
	if decoder.Decode(new(any)) != io.EOF {
		t.Error("something follows the report")
	}
	if !got.Good || len(got.Verdict) == 0 || got.Server == "" {
		t.Errorf("good %t, verdict %q, server %q", got.Good, got.Verdict, got.Server)
	}
	if got.Seed != 7 || got.Contacts != contactCount || got.Categories != len(categoryNames) ||
		got.Processes != 2 || got.Adders != 6 || got.Deleters != 2 {
		t.Errorf("the report does not repeat the settings: %+v", got)
	}
	if len(got.Runs) != 2 || got.Runs[0].Locks || !got.Runs[1].Locks {
		t.Fatalf("got runs %+v, want one without locks and one with", got.Runs)
	}
	for _, r := range got.Runs {
		if r.Added == 0 || r.Deleted == 0 || r.References == 0 || r.Operations != r.operations() {
			t.Errorf("locks %t: a run that did nothing, or did not count: %+v", r.Locks, r)
		}
		if r.Seconds < 1 || r.CommandsPerSecond <= 0 || r.OperationsPerSecond <= 0 {
			t.Errorf("locks %t: %v s, %v operations/s, %v commands/s", r.Locks, r.Seconds, r.OperationsPerSecond, r.CommandsPerSecond)
		}
	}
	without, with := got.Runs[0], got.Runs[1]
	if without.Dangling == 0 || without.Example == "" || without.Conflicts != 0 || without.Lost != 0 {
		t.Errorf("without locks: %+v; want dangling references, and no conflicts", without)
	}
	if with.Dangling != 0 || with.Example != "" || with.Conflicts == 0 {
		t.Errorf("with locks: %+v; want conflicts, and no dangling references", with)
	}
	if least := 3*with.Added + 4*with.Deleted; with.Commands < least {
		t.Errorf("with locks %d commands were counted, want %d at least", with.Commands, least)
	}
	late := got.LateWrite
	if late.LeftOut == "" && (!late.Noticed || late.Dangling != 1 || late.After != 0 || len(late.Log) < 8) {
		t.Errorf("the late write: %+v", late)
	}
}

func TestInterrupted(t *testing.T) {
	t.Setenv("MONGODB_URI", mongotest.URI(t))
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	var out, progress bytes.Buffer
	began := time.Now()
	status := run(ctx, []string{"-duration", "1m", "-goroutines", "4"}, &out, &progress)
	if status != 1 || !strings.Contains(progress.String(), "interrupted") {
		t.Errorf("exit status %d, want 1 and a word of the reason\n%s", status, &progress)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v to end", took)
	}
}

func TestFlags(t *testing.T) {
	for name, test := range map[string]struct {
		args   []string
		status int
		says   []string
	}{
		"help":          {[]string{"-h"}, 0, []string{"Usage: go run ./demo", "-duration", "exit status"}},
		"unknown flag":  {[]string{"-locks"}, 2, []string{"-locks", "Usage"}},
		"argument":      {[]string{"fast"}, 2, []string{"fast"}},
		"not a number":  {[]string{"-processes", "many"}, 2, []string{"many", "-processes"}},
		"one process":   {[]string{"-processes", "1"}, 2, []string{"-processes is 1; give 2 to 64"}},
		"several wrong": {[]string{"-duration", "1ms", "-goroutines", "1", "-work", "-1s"}, 2, []string{"-duration is 1ms", "-goroutines is 1", "-work is -1s"}},
	} {
		t.Run(name, func(t *testing.T) {
			var out, progress bytes.Buffer
			if status := run(t.Context(), test.args, &out, &progress); status != test.status {
				t.Errorf("exit status %d, want %d", status, test.status)
			}
			for _, want := range test.says {
				if !strings.Contains(progress.String(), want) {
					t.Errorf("%q is not said in:\n%s", want, &progress)
				}
			}
			if out.Len() > 0 {
				t.Errorf("on standard output: %s", &out)
			}
		})
	}
}

func TestServerThatDoesNotAnswer(t *testing.T) {
	t.Setenv("MONGODB_URI", "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=100&connectTimeoutMS=100")
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("too slow"))
	defer cancel()
	var out, progress bytes.Buffer
	if status := run(ctx, nil, &out, &progress); status != 1 || !strings.Contains(progress.String(), "MONGODB_URI") {
		t.Errorf("exit status %d, want 1 and a word of MONGODB_URI:\n%s", status, &progress)
	}
}

func TestPeople(t *testing.T) {
	if !reflect.DeepEqual(people(1), people(1)) {
		t.Error("the same seed makes different people")
	}
	if reflect.DeepEqual(people(1), people(2)) {
		t.Error("different seeds make the same people")
	}
	mailboxes := map[string]bool{}
	for _, p := range people(1) {
		if mailboxes[p.email] {
			t.Errorf("two people share %s", p.email)
		}
		mailboxes[p.email] = true
	}
	if len(mailboxes) != contactCount {
		t.Errorf("%d people, want %d", len(mailboxes), contactCount)
	}
}
