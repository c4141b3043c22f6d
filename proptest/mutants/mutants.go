// Package mutants seeds faults into the product and checks that a test fails.
//
// A test that can't fail proves nothing. So each mutant makes one mistake that a careful programmer could make, or
// removes one of the protocol's rules, and names the tests that must notice it. There is one for each clause of a rule,
// and one for each promise of docs/guide.md: a new one needs a new clause or promise.
//
// They are data, in testdata/mutants. An entry has the lines
//
//	mutant: what the mutated library does wrong
//	rule: the number of the rule in docs/protocol.md that it breaks, if it breaks one
//	why: the effect on the user, unless the rule says it
//	file: from the module's root
//	tests: the pattern of the tests that must notice it, and of their subtests after a slash
//	in: their package
//
// and then its edits: a text that the file has exactly once, each line after a minus, and what replaces it after plusses.
//
// All of them take some minutes. A plain go test only shows that they apply and compile:
//
//	go test ./proptest/mutants -v -timeout 60m -args -only .
package mutants

import (
	"embed"
	"fmt"
	"strconv"
	"strings"
)

type Mutant struct {
	Name, Why, File string
	Rule            int // 0: none
	Tests, Package  string
	Edits           []Edit
}

// Edit replaces the one place that has a text.
type Edit struct{ Old, New string }

// Rules is the number of the protocol's rules.
const Rules = 28

//go:embed testdata/mutants/*.txt
var files embed.FS

func All() (all []Mutant, err error) {
	const dir = "testdata/mutants"
	entries, err := files.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		text, err := files.ReadFile(dir + "/" + entry.Name())
		if err != nil {
			return nil, err
		}
		some, err := Parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		all = append(all, some...)
	}
	return all, nil
}

// Parse reads the mutants of a file. A line of another kind is an error, but for comments (#) and empty lines.
func Parse(text string) (all []Mutant, err error) {
	var m *Mutant
	var before byte // the first of the last line
	for n, line := range strings.Split(text, "\n") {
		if name, ok := strings.CutPrefix(line, "mutant: "); ok {
			all = append(all, Mutant{Name: name})
			m, before = &all[len(all)-1], 0
			continue
		}
		if line == "" || line[0] == '#' {
			continue
		}
		if m == nil {
			return nil, fmt.Errorf("line %d stands before the first mutant", n+1)
		}
		if err := m.read(line, before); err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
		before = line[0]
	}
	return all, nil
}

func (m *Mutant) read(line string, before byte) (err error) {
	last := len(m.Edits) - 1
	switch key, value, _ := strings.Cut(line, ": "); {
	case line[0] == '-' && before == '-':
		m.Edits[last].Old += "\n" + line[1:]
	case line[0] == '-':
		m.Edits = append(m.Edits, Edit{Old: line[1:]})
	case line[0] == '+' && before == '-':
		m.Edits[last].New = line[1:]
	case line[0] == '+' && before == '+':
		m.Edits[last].New += "\n" + line[1:]
	case key == "rule":
		m.Rule, err = strconv.Atoi(value)
	case key == "why":
		m.Why = value
	case key == "file":
		m.File = value
	case key == "tests":
		m.Tests = value
	case key == "in":
		m.Package = value
	default:
		err = fmt.Errorf("%q is no line of a mutant", line)
	}
	return err
}

func (m Mutant) Apply(text string) (string, error) {
	for _, e := range m.Edits {
		if n := strings.Count(text, e.Old); n != 1 {
			return "", fmt.Errorf("%s has this text %d times, and must have it once:\n%s", m.File, n, e.Old)
		}
		text = strings.Replace(text, e.Old, e.New, 1)
	}
	return text, nil
}
