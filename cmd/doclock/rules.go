package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/doclock/doclock/relations"
	"github.com/spf13/cobra"
)

const rulesLong = `rules checks rules before programs lock by them: faults, and what may be unintended. A tag
may starve, that is be kept waiting for ever; two tags may be asymmetric, that is held
together in one order of arrival and not in the other. It draws the rules as a matrix:
each row is a tag that is asked for, each column a tag that is there, and "∞" is at a
relation that can keep a lock out for ever.

RULES is a file, "-" for stdin, or a preset: exclusive, read-preferring, write-preferring,
fair, semaphore:N, multi-granularity. A file has a JSON table, in the form of monglock's
lockRelationships:

  {"read": {"cooperative": ["write"]}, "write": {"cooperative": ["write"], "assertive": ["read"]}}

It needs no server. The exit code is 1 if there are faults; findings are not faults.`

const rulesExample = `  doclock rules fair
  doclock rules rules.json
  doclock rules multi-granularity --json | jq -r '.starvations[]'`

func newRules(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "rules [flags] RULES", Short: "Check and draw rules",
		Long: rulesLong, Example: rulesExample, Args: cobra.MaximumNArgs(1), ValidArgsFunction: completeRules,
		RunE: action(func(_ context.Context, args []string) error {
			if len(args) == 0 {
				return usage("give RULES: a file, or a preset (%s)", presetNames)
			}
			return c.rules(args[0])
		}),
	}
}

func (c *cli) rules(arg string) error {
	rules, err := readRules(arg)
	if err != nil {
		return err
	}
	if c.json {
		return c.rulesJSON(rules)
	}
	_, err = io.WriteString(c.out, c.rulesText(rules))
	return err
}

func (c *cli) rulesText(rules relations.Rules) string {
	var b strings.Builder
	starvations, asymmetries := rules.Starvations(), rules.Asymmetries()
	if len(starvations)+len(asymmetries) == 0 {
		b.WriteString("no faults, no findings\n")
	} else {
		fmt.Fprintf(&b, "no faults; %s\n", counted(len(starvations)+len(asymmetries), "finding", "findings"))
	}
	for _, s := range starvations {
		fmt.Fprintf(&b, "  starvation: %v\n", s)
	}
	for _, a := range asymmetries {
		fmt.Fprintf(&b, "  asymmetry: %v\n", a)
	}
	b.WriteString("\n" + rules.Matrix())
	return b.String()
}

func (c *cli) rulesJSON(rules relations.Rules) error {
	out := struct {
		Tags        []string        `json:"tags"`
		Starvations []string        `json:"starvations"`
		Asymmetries []string        `json:"asymmetries"`
		Rules       relations.Rules `json:"rules"`
	}{rules.Tags(), []string{}, []string{}, rules}
	for _, s := range rules.Starvations() {
		out.Starvations = append(out.Starvations, s.String())
	}
	for _, a := range rules.Asymmetries() {
		out.Asymmetries = append(out.Asymmetries, a.String())
	}
	return c.printJSON(out)
}

// presets are the rules that have names.
var presets = map[string]func() relations.Rules{
	"exclusive":         relations.Exclusive,
	"read-preferring":   relations.ReadPreferring,
	"write-preferring":  relations.WritePreferring,
	"fair":              relations.Fair,
	"multi-granularity": relations.MultiGranularity,
}

const presetNames = "exclusive, read-preferring, write-preferring, fair, semaphore:N, multi-granularity"

// readRules reads a preset or a file. Faults in the rules are the error.
func readRules(arg string) (relations.Rules, error) {
	if preset, ok := presets[arg]; ok {
		return preset(), nil
	}
	if n, ok := strings.CutPrefix(arg, "semaphore:"); ok {
		return semaphore(n)
	}
	read := func() ([]byte, error) { return os.ReadFile(arg) }
	if arg == "-" {
		read = func() ([]byte, error) { return io.ReadAll(os.Stdin) }
	}
	text, err := read()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usage("%q is no file, and no preset (%s)", arg, presetNames)
	}
	if err != nil {
		return nil, usage("the rules can't be read: %v", err)
	}
	var rules relations.Rules
	if err := rules.UnmarshalJSON(text); err != nil {
		return nil, fmt.Errorf("%s: %w", arg, err)
	}
	if rules == nil {
		return nil, fmt.Errorf("%s: %w: the table is null", arg, relations.ErrInvalidRules)
	}
	return rules, nil
}

func semaphore(text string) (relations.Rules, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > relations.MaxAllow+1 {
		return nil, usage("a semaphore has 1 to %d holders, not %s", relations.MaxAllow+1, text)
	}
	return relations.Semaphore(n), nil
}

func rulesFlag(cmd *cobra.Command, rules *string) {
	cmd.Flags().StringVar(rules, "rules", "", "the `RULES` of the programs that lock here: a preset, or a file")
	_ = cmd.RegisterFlagCompletionFunc("rules", completeRules) // the flag exists
}

func completeRules(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return strings.Split(strings.Replace(presetNames, "semaphore:N", "semaphore:3", 1), ", "), cobra.ShellCompDirectiveDefault
}
