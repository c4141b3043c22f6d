package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// confirm asks a question on the terminal. Without a terminal it refuses: a
// script says --yes. It returns an error if the answer isn't yes.
func (c *cli) confirm(ctx context.Context, question string) error {
	switch {
	case !isTerminal(os.Stdin):
		return usage("stdin is not a terminal, so nobody can be asked; give --yes")
	case !isTerminal(c.err):
		return usage("stderr is not a terminal, so nobody sees the question; give --yes")
	}
	fmt.Fprintf(c.err, "%s [y/N] ", question)
	answers := make(chan string, 1)
	go func() { // a read can't be cancelled; it ends with the process
		answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			answer = ""
		}
		answers <- answer
	}()
	select {
	case answer := <-answers:
		switch strings.ToLower(strings.TrimSpace(answer)) {
		case "y", "yes":
			return nil
		}
	case <-ctx.Done():
		fmt.Fprintln(c.err)
	}
	return &ending{code: exitFailed, err: errors.New("nothing was removed")}
}
