package main

import (
	_ "embed"
	"encoding/json"
	"os"
	"strings"

	"github.com/doclock/doclock/relations"
)

//go:embed rules.html
var rulesPage string

// writePage writes a page to a file, in which a person changes the rules. It begins
// with the given ones.
func writePage(file string, rules relations.Rules) error {
	var data struct {
		Start   relations.Rules            `json:"start"`
		Presets map[string]relations.Rules `json:"presets"`
	}
	data.Start, data.Presets = rules, map[string]relations.Rules{"semaphore:3": relations.Semaphore(3)}
	for name, preset := range presets {
		data.Presets[name] = preset()
	}
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(strings.Replace(rulesPage, "DATA", string(text), 1)), 0o644)
}
