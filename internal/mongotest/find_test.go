//go:build unix

package mongotest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestServerOfTheEnvironment(t *testing.T) {
	t.Setenv("MONGODB_URI", "mongodb://user:secret@127.0.0.1:1/?serverSelectionTimeoutMS=100")
	_, err := Start(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), "MONGODB_URI is set") || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("the error is: %v", err)
	}
	for _, uri := range []string{os.Getenv("MONGODB_URI"), "mongodb://user:secret%40host/", "mongodb://user:secret/host", "mongodb://127.0.0.1/?tls=secret"} {
		t.Setenv("MONGODB_URI", uri)
		if _, err := Start(t.Context(), nil); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error is: %v", uri, err)
		}
	}
}

func TestGivenServer(t *testing.T) {
	t.Parallel()
	uri := URI(t)
	server, err := given(t.Context(), uri)
	if err != nil {
		t.Fatal(err)
	}
	if server.URI() != uri || !strings.Contains(server.Description(), "MONGODB_URI") {
		t.Errorf("it is %s, %s", server.URI(), server.Description())
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
}

func TestFirstWayIsTaken(t *testing.T) {
	got, err := find(t.Context(), []way{missing("one"), present("two"), present("three")}, cache{}, newProgress(nil))
	if err != nil || got.name != "two" {
		t.Errorf("found %q, %v", got.name, err)
	}
}

func TestBrokenWayEndsTheSearch(t *testing.T) {
	boom := errors.New("boom")
	broken := way{name: "two", prepare: func(context.Context, cache, *progress) error { return boom }}
	_, err := find(t.Context(), []way{missing("one"), broken, present("three")}, cache{}, newProgress(nil))
	if !errors.Is(err, boom) || !strings.Contains(err.Error(), "two") || !strings.Contains(err.Error(), "one is missing") {
		t.Errorf("the error is: %v", err)
	}
}

func TestFailureTellsWhatWasTriedAndWhatHelps(t *testing.T) {
	_, err := find(t.Context(), []way{missing("one"), missing("two")}, cache{}, newProgress(nil))
	if err == nil {
		t.Fatal("found something")
	}
	for _, words := range []string{"1. MONGODB_URI: not set", "2. one: one is missing", "3. two: two is missing", "MONGODB_URI=mongodb://"} {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("it does not say %q:\n%v", words, err)
		}
	}
	user := &notFoundError{tried: []string{"x"}}
	if !strings.Contains(user.Error(), `sudo env "PATH=$PATH" go run ./internal/mongotest/serve`) {
		t.Errorf("a user who is not root is not told what root could do:\n%v", user)
	}
}

// A demanded image is the only way: a server of another kind would be used by
// mistake.
func TestADemandedImageIsTheOnlyWay(t *testing.T) {
	t.Setenv("MONGODB_URI", "")
	t.Setenv(imageEnv, "")
	anyone, err := openCache()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(imageEnv, "registry.example/mongo:4.4")
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	for _, engine := range []string{"docker", "podman"} {
		script(t, filepath.Join(bin, engine), `[ "$1" = ps ]`)
	}
	for _, w := range ways() {
		err := w.prepare(t.Context(), cache{}, newProgress(nil))
		if err == nil || !strings.Contains(err.Error(), "pulling registry.example/mongo:4.4 with "+w.name) {
			t.Errorf("%s is a way: %v", w.name, err)
		}
	}
	demanded, err := openCache()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Remove(demanded.dir) }()
	if demanded.dir == anyone.dir || demanded.socket() == anyone.socket() {
		t.Error("the shared server of another image would be taken for it")
	}
}

// A container client without an engine, or with one that hangs, is skipped.
func TestContainerClientWithoutEngine(t *testing.T) {
	t.Parallel()
	docker := filepath.Join(t.TempDir(), "docker")
	script(t, docker, "echo 'Cannot connect to the daemon.' >&2; exit 1")
	var passed unavailable
	if err := prepareContainer(t.Context(), docker, defaultImage, newProgress(nil)); !errors.As(err, &passed) || !strings.Contains(string(passed), "Cannot connect") {
		t.Errorf("a client without an engine: %v", err)
	}
	script(t, docker, "exec sleep 60")
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := prepareContainer(short, docker, defaultImage, newProgress(nil)); !errors.As(err, &passed) {
		t.Errorf("a client whose engine hangs: %v", err)
	}
}

// script writes a program.
// script makes a program. No process is forked meanwhile: it would have the file open
// for writing until it executes its own program, and the file can't be executed so long.
func script(t *testing.T, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
}

func missing(name string) way {
	return way{name: name, prepare: func(context.Context, cache, *progress) error { return unavailable(name + " is missing") }}
}

func present(name string) way {
	return way{name: name, prepare: func(context.Context, cache, *progress) error { return nil }}
}
