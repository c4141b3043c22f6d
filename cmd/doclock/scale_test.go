package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

var documents = flag.Int("documents", 20_000, "locked documents in the test of scale")

// memoryFile, in the environment, is a file that the command line writes its
// /proc/self/status to at its end. (The kernel's account of a child's memory
// begins with its parent's.)
const memoryFile = "DOCLOCK_TEST_MEMORY"

func copyStatus(file string) {
	status, err := os.ReadFile("/proc/self/status")
	if err == nil {
		err = os.WriteFile(file, status, 0o600)
	}
	if err != nil {
		panic(err)
	}
}

// listed is what one ls took.
type listed struct {
	lines      int
	first, all time.Duration
	most       int64 // kB of memory, at its greatest
}

func (p *place) listed(flags ...string) listed {
	p.Helper()
	ls := p.command(append([]string{"ls"}, flags...)...)
	file := filepath.Join(p.TempDir(), "status")
	ls.Env = append(ls.Env, memoryFile+"="+file)
	out, err := ls.StdoutPipe()
	if err != nil {
		p.Fatal(err)
	}
	begun := time.Now()
	if err := ls.Start(); err != nil {
		p.Fatal(err)
	}
	var l listed
	for lines := bufio.NewScanner(out); lines.Scan(); l.lines++ {
		if l.lines == 0 {
			l.first = time.Since(begun)
		}
	}
	if err := ls.Wait(); err != nil {
		p.Fatal(err)
	}
	l.all = time.Since(begun)
	status, err := os.ReadFile(file)
	if err != nil {
		p.Fatal(err)
	}
	_, most, _ := strings.Cut(string(status), "VmHWM:")
	if _, err := fmt.Sscan(most, &l.most); err != nil {
		p.Fatal(err)
	}
	return l
}

// ls needs the same memory for all documents as for a few, and its first line
// doesn't wait for the last. The times are beside those of a plain scan in this
// process, whose connection stands:
//
//	go test -run TestScale -v -documents 100000 .
func TestScale(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the test looks at /proc")
	}
	p, few := alone(t), alone(t)
	for i := 0; i < *documents; {
		var batch []any
		for ; i < *documents && len(batch) < 1000; i++ {
			batch = append(batch, document(i, stored{tag: "write", owner: "web-" + itoa(i%100) + "/1/api", fence: 1, age: time.Hour, expires: time.Hour}))
		}
		if _, err := p.coll.InsertMany(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	few.insert(1, stored{tag: "write", owner: "web-1/1/api", fence: 1, expires: time.Hour})

	begun := time.Now()
	cursor, err := p.coll.Find(t.Context(), bson.D{}, options.Find().SetProjection(bson.D{{Key: "lock", Value: 1}}))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for ; cursor.Next(t.Context()); n++ {
	}
	plain := time.Since(begun)
	if err := cursor.Close(t.Context()); err != nil || n != *documents {
		t.Fatalf("%d documents, %v", n, err)
	}

	one := few.listed()
	t.Logf("plain scan of %d documents: %v; ls of 1 document: %v, %d MB", n, plain.Round(time.Millisecond), one.all.Round(time.Millisecond), one.most>>10)
	for name, flags := range map[string][]string{"table": nil, "JSON": {"--json"}, "one owner": {"--owner", "web-7/1/api"}} {
		l := p.listed(flags...)
		t.Logf("ls, %s: %d lines, the first after %v, all after %v, %d MB", name, l.lines, l.first.Round(time.Millisecond), l.all.Round(time.Millisecond), l.most>>10)
		if name == "table" && l.lines != n+1 || name == "JSON" && l.lines != n {
			t.Errorf("%d lines", l.lines)
		}
		// The batches of the answers and what the collector has not yet collected;
		// all entries together would take more.
		if more := l.most - one.most; more > 10<<10 {
			t.Errorf("ls takes %d MB more for %d documents", more>>10, n)
		}
	}
}
