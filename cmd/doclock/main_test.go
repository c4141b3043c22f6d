package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/doclock/doclock/internal/mongotest"
)

// asCLI, in the environment, makes this test binary the command line itself: so
// the tests run real processes.
const asCLI = "DOCLOCK_TEST_AS_CLI"

// childArgument makes this test binary a command for run.
const childArgument = "test-child"

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == childArgument:
		child(os.Args[2:])
	case os.Getenv(asCLI) != "":
		code, by := execute(os.Args[1:])
		if file := os.Getenv(memoryFile); file != "" {
			copyStatus(file)
		}
		leave(code, by)
	default:
		heedInterrupts()
		mongotest.Main(m)
	}
}

// heedInterrupts lets the tests' processes get a Ctrl-C, also if this one ignores it, as what a script starts in the
// background does: a process inherits that a signal is ignored, and not that it is caught.
func heedInterrupts() {
	if signal.Ignored(os.Interrupt) {
		signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	}
}

// child prints "started PID", each signal as "got …", and the lines of its input
// obeys: "exit N". A TERM or an INT ends it with code 9, unless it is stubborn.
// With "parent" it has a stubborn child, which inherits its output.
func child(how []string) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	if slices.Contains(how, "parent") {
		cmd := exec.Command(os.Args[0], childArgument, "stubborn")
		cmd.Stdout = os.Stdout
		if err := cmd.Start(); err != nil {
			panic(err)
		}
	}
	fmt.Println("started", os.Getpid())
	lines := make(chan string)
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			lines <- in.Text()
		}
	}()
	for {
		select {
		case s := <-signals:
			fmt.Println("got", s)
			if (s == syscall.SIGTERM || s == syscall.SIGINT) && !slices.Contains(how, "stubborn") {
				os.Exit(9)
			}
		case line := <-lines:
			if n, ok := strings.CutPrefix(line, "exit "); ok {
				code, err := strconv.Atoi(n)
				if err != nil {
					panic(err)
				}
				os.Exit(code)
			}
		}
	}
}
