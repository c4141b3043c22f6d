package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

//go:generate go test -run TestDocs -update .

var update = flag.Bool("update", false, "write the reference in docs/operations.md anew")

const docsPage = "../../docs/operations.md"

// docs/operations.md has the usage and the flags of each subcommand, as its help has them. Each has examples.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile(docsPage)
	must(t, err)
	before, rest, _ := strings.Cut(string(text), "\n<!-- cmd/doclock/docs_test.go compares this -->\n```text\n")
	got, after, _ := strings.Cut(rest, "```\n")
	want := reference(newRoot(&cli{}))
	switch {
	case *update:
		text = []byte(before + "\n<!-- cmd/doclock/docs_test.go compares this -->\n```text\n" + want + "```\n" + after)
		must(t, os.WriteFile(docsPage, text, 0o644))
	case got != want:
		t.Errorf("%s is not what the commands say; renew it with go generate, in cmd/doclock", docsPage)
	}
	for _, cmd := range newRoot(&cli{}).Commands() {
		if cmd.Example == "" || cmd.Long == "" {
			t.Errorf("%s has no example or no help", cmd.Name())
		}
	}
}

// The command lines in the pages have subcommands, flags and arguments that there are.
func TestCommandsInPages(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/*.md")
	must(t, err)
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		must(t, err)
		scripts := strings.Join(regexp.MustCompile("(?s)```sh\n.*?\n```").FindAllString(string(text), -1), "\n")
		lines := regexp.MustCompile("(?m)^doclock (.+)").FindAllStringSubmatch(scripts, -1)
		spans := regexp.MustCompile("`doclock ([^`]+)`").FindAllStringSubmatch(string(text), -1)
		indented := regexp.MustCompile(`(?m)^    doclock ([^[\n]+)$`).FindAllStringSubmatch(string(text), -1)
		for _, line := range slices.Concat(lines, spans, indented) {
			if err := asCommand(line[1]); err != nil {
				t.Errorf("%s: doclock %s: %v", filepath.Base(page), line[1], err)
			}
		}
	}
	for line, want := range map[string]string{
		"inspect -c shop.orders A-17": "", "run nightly -- ./backup.sh --all | cat": "", "ls … --older 1h  # old": "",
		"inspects A-17": "unknown command", "ls --old 1h": "unknown flag", "ls --older soon": "invalid argument", "ls A-17": "unexpected",
	} {
		if err := asCommand(line); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}

// asCommand finds faults in a command line, up to a comment or a pipe. A page may name a subcommand or a flag without
// what it needs. "acquire" is the comment that a command has at the server.
func asCommand(line string) error {
	line, _, _ = strings.Cut(line, " #")
	var args []string
	for _, word := range regexp.MustCompile(`'[^']*'|"[^"]*"|\S+`).FindAllString(line, -1) {
		if word == "|" || word == ">" {
			break
		} else if word != "…" {
			args = append(args, strings.Trim(word, `'";`))
		}
	}
	root := newRoot(&cli{})
	root.InitDefaultCompletionCmd()
	root.AddCommand(&cobra.Command{Use: "acquire"})
	cmd, rest, err := root.Find(args)
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if given := cmd.Flags().Args(); err == nil && len(given) > 0 {
		err = cmd.ValidateArgs(given)
	}
	if err != nil && strings.HasPrefix(err.Error(), "flag needs an argument") {
		return nil
	}
	return err
}

// reference has the usage, the purpose and the flags of each subcommand, and of a flag like an earlier one its name.
func reference(root *cobra.Command) string {
	var b strings.Builder
	seen := map[string]bool{}
	for _, cmd := range root.Commands() {
		if !cmd.IsAvailableCommand() {
			continue
		}
		flags, again := pflag.NewFlagSet(cmd.Name(), pflag.ContinueOnError), ""
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if seen[f.Name+f.Usage] {
				again += " --" + f.Name
				return
			}
			seen[f.Name+f.Usage] = true
			flags.AddFlag(f)
		})
		fmt.Fprintf(&b, "%s\n    %s.\n%s", strings.Replace(cmd.UseLine(), " [flags]", "", 1), cmd.Short, flags.FlagUsages())
		if again != "" {
			fmt.Fprintf(&b, "      as above:%s\n", again)
		}
		b.WriteString("\n")
	}
	return b.String() + "Flags of all subcommands\n" + root.PersistentFlags().FlagUsages()
}
