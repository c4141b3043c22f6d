// Skips counts the tests of one run, and those that were skipped. A skip that CONTRIBUTING.md doesn't name is an error.
//
//	go test -json ./... | go run ./internal/mongotest/skips
//
// It prints the output of what has failed, and a line for each package.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("skips: ")
	page, err := os.ReadFile("CONTRIBUTING.md")
	if err == nil {
		err = count(os.Stdin, string(page), os.Stdout)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// virtual begins the reason of mongotest.Virtual, whose tests have one row.
const virtual = "it has a server of its own, in virtual time"

// count reads events of go test.
func count(events io.Reader, page string, out io.Writer) error {
	var tests, inVirtual, others int
	var unnamed []string
	said := map[string]string{} // by each test
	for decoder := json.NewDecoder(events); ; {
		var e struct{ Action, Package, Test, Output string }
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		name := e.Package + " " + e.Test
		switch {
		case e.Test == "" && e.Action == "build-output", e.Test == "" && e.Action == "output" && e.Output != "PASS\n":
			fmt.Fprint(out, e.Output)
		case e.Test == "":
		case e.Action == "output":
			said[name] += e.Output
		case e.Action == "run":
			tests++
		case e.Action == "fail":
			fmt.Fprint(out, said[name])
		case e.Action == "skip" && strings.Contains(said[name], virtual):
			inVirtual++
		case e.Action == "skip":
			others++
			if top, _, _ := strings.Cut(e.Test, "/"); !strings.Contains(page, "`"+top+"`") {
				unnamed = append(unnamed, name)
			}
		}
		if e.Action == "pass" {
			delete(said, name)
		}
	}
	fmt.Fprintf(out, "%d tests, of which %d are skipped because they have a server in virtual time, and %d others\n", tests, inVirtual, others)
	switch {
	case tests == 0:
		return errors.New("there are no tests; is it the output of go test -json?")
	case unnamed != nil:
		return fmt.Errorf("skipped, and not named in CONTRIBUTING.md: %s", strings.Join(unnamed, ", "))
	}
	return nil
}
