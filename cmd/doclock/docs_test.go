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

	"github.com/doclock/doclock/relations"
	"github.com/spf13/cobra"
)

//go:generate go test -run TestDocs -update .

var update = flag.Bool("update", false, "write docs/cli.md anew")

const docsPage = "../../docs/cli.md"

// docs/cli.md is made of the same texts as the help.
func TestDocs(t *testing.T) {
	want := page(newRoot(&cli{}))
	if *update {
		if err := os.WriteFile(docsPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(docsPage)
	if err != nil || string(got) != want {
		t.Errorf("docs/cli.md is not what the commands say (%v); renew it with go generate, in cmd/doclock", err)
	}
}

// The guide shows the matrices of the presets.
func TestMatricesOfPresets(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../docs/guide.md")
	if err != nil {
		t.Fatal(err)
	}
	for call, rules := range map[string]relations.Rules{
		"Exclusive()": relations.Exclusive(), "Semaphore(3)": relations.Semaphore(3), "ReadPreferring()": relations.ReadPreferring(),
		"WritePreferring()": relations.WritePreferring(), "Fair()": relations.Fair(), "MultiGranularity()": relations.MultiGranularity(),
	} {
		if want := "\n" + call + "\n" + rules.Matrix(); !strings.Contains(string(guide), want) {
			t.Errorf("the guide doesn't show%s", want)
		}
	}
}

// The command lines in the pages have subcommands, flags and arguments that there are.
func TestCommandsInPages(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
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
		"inspects A-17": "unknown command", "ls --old 1h": "unknown flag", "ls --older soon": "invalid argument", "ls A-17": "unknown command",
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

const pageHead = `# The command line

<!-- Made of the help texts in cmd/doclock by "go generate" there. A test compares the two. -->

    git clone https://github.com/doclock/doclock
    go -C doclock/cmd/doclock install .

Completion: ` + "`doclock completion bash`" + `, ` + "`zsh`" + `, ` + "`fish`" + ` or ` + "`powershell`" + ` prints a script; its ` + "`--help`" + ` says where it goes.

`

func page(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString(pageHead)
	for _, cmd := range append([]*cobra.Command{root}, root.Commands()...) {
		if cmd.IsAvailableCommand() || cmd == root {
			section(&b, cmd)
		}
	}
	return strings.TrimSpace(b.String()) + "\n"
}

func section(b *strings.Builder, cmd *cobra.Command) {
	fmt.Fprintf(b, "## %s\n\n%s.\n\n", cmd.CommandPath(), cmd.Short)
	if cmd.HasParent() {
		fmt.Fprintf(b, "    %s\n\n", cmd.UseLine())
	}
	b.WriteString(markdown(cmd.Long))
	fmt.Fprintf(b, "Examples:\n\n```sh\n%s\n```\n\n", unindented(cmd.Example))
	flags := cmd.LocalNonPersistentFlags()
	title := "Flags"
	if !cmd.HasParent() {
		flags, title = cmd.PersistentFlags(), "Flags of all subcommands"
	}
	if usages := strings.TrimRight(flags.FlagUsages(), "\n"); usages != "" {
		fmt.Fprintf(b, "%s:\n\n```\n%s\n```\n\n", title, usages)
	}
}

// markdown is a help text with its indented lines in blocks of code.
func markdown(text string) string {
	var b strings.Builder
	in := false
	for line := range strings.Lines(text + "\n") {
		if is := strings.HasPrefix(line, "  "); is != in {
			if in = is; in {
				b.WriteString("\n")
			}
			b.WriteString("```\n")
		}
		if !in && strings.TrimSpace(line) != "" {
			line = strings.NewReplacer("<", "&lt;", "*", `\*`).Replace(line)
		}
		b.WriteString(strings.TrimPrefix(line, "  "))
	}
	return strings.TrimRight(b.String(), "\n") + "\n\n"
}

func unindented(text string) string {
	return strings.ReplaceAll(strings.TrimPrefix(text, "  "), "\n  ", "\n")
}

// Every subcommand has a help with examples.
func TestHelp(t *testing.T) {
	t.Parallel()
	for _, cmd := range newRoot(&cli{}).Commands() {
		if cmd.Example == "" || cmd.Long == "" {
			t.Errorf("%s has no example or no help", cmd.Name())
		}
	}
}
