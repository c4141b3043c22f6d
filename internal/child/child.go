// Package child starts the running program again, as further processes that use
// the library at the same time, and can be killed and stopped.
//
//	func TestMain(m *testing.M) {
//		child.Main("workers", work) // in the child: runs work, and ends the process
//		mongotest.Main(m)
//	}
//
//	p, err := child.Start(ctx, "workers", []string{uri, name}, func(p *child.Process, line string) { … })
package child

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strings"
)

// variable in the environment has the name under which a child was started, a
// space, and its job as JSON.
const variable = "DOCLOCK_CHILD"

// failed begins the line with the error of a task.
const failed = "failed "

// Main runs the task if the process was started under this name, and then does
// not return. The task's ctx ends when the parent calls [Process.End], or is gone.
// An error is printed as a line "failed …".
func Main[Job any](name string, task func(ctx context.Context, job Job) error) {
	started, text, _ := strings.Cut(os.Getenv(variable), " ")
	if started != name {
		return
	}
	signal.Ignore(os.Interrupt) // Ctrl-C reaches all processes of a terminal: the parent ends this one
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			select {
			case proceed <- struct{}{}:
			case <-ctx.Done():
			}
		}
		stop()
	}()
	var job Job
	err := json.Unmarshal([]byte(text), &job)
	if err == nil {
		err = task(ctx, job)
	}
	if err != nil {
		fmt.Println(failed + strings.ReplaceAll(err.Error(), "\n", "; "))
		os.Exit(1)
	}
	os.Exit(0)
}

var proceed = make(chan struct{}, 1)

// Await waits in a child until the parent calls [Process.Proceed], or ctx ends. A
// call before the end counts, also if both are there.
func Await(ctx context.Context) error {
	select {
	case <-proceed:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-proceed:
		return nil
	default:
		return context.Cause(ctx)
	}
}
