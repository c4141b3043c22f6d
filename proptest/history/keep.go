package history

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
)

// The histories of failed proofs stay in a directory of the system's temporary one: the
// newest few.
const (
	keptIn   = "doclock-histories"
	mostKept = 40
)

// Keep writes the history to a file that stays, and says where, or what went wrong.
func (h *History) Keep() string {
	where, err := h.keep(nil)
	if err != nil {
		return err.Error()
	}
	return filepath.Join(where, keptAs)
}

const keptAs = "history.jsonl"

// keep writes the document's history and its transcript to files that stay.
func (c *check) keep() string {
	name := filepath.Base(c.ID) + ".txt"
	h := &History{Documents: []Document{c.Document}, Operations: c.operations, Commands: c.commands, Apart: c.apart}
	where, err := h.keep(map[string]string{name: c.whole()})
	if err != nil {
		return err.Error()
	}
	return filepath.Join(where, name) + ", " + filepath.Join(where, keptAs)
}

// keep writes the history and other files to a new directory.
func (h *History) keep(others map[string]string) (where string, err error) {
	all := filepath.Join(os.TempDir(), keptIn)
	if err := os.MkdirAll(all, 0o755); err != nil {
		return "", err
	}
	forget(all)
	where, err = os.MkdirTemp(all, "")
	if err != nil {
		return "", err
	}
	for name, text := range others {
		if err := os.WriteFile(filepath.Join(where, name), []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	f, err := os.Create(filepath.Join(where, keptAs))
	if err != nil {
		return "", err
	}
	return where, cmp.Or(h.Encode(f), f.Close())
}

// forget removes all but the newest directories.
func forget(all string) {
	entries, _ := os.ReadDir(all)
	age := map[string]int64{}
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			age[e.Name()] = -info.ModTime().UnixNano()
		}
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return cmp.Compare(age[a.Name()], age[b.Name()]) })
	for _, e := range entries[min(len(entries), mostKept-1):] {
		_ = os.RemoveAll(filepath.Join(all, e.Name()))
	}
}
