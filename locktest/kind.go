package locktest

import (
	"bytes"
	"strings"

	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Kind is a kind of command. A command can be of several: UpdateAndRelease is a
// write and a release.
type Kind uint8

// The kinds of commands.
const (
	// Acquires may grant a lease, or give a place in the document queue: those of
	// Acquire, TryAcquire, Enqueue, Ticket.Confirm, Resume and Downgrade, and the
	// look-ups of claims.
	Acquires Kind = 1 << iota

	// Renewals extend a lease, or the time of a token: those of kept leases, Renew
	// and Touch.
	Renewals

	// Writes are sent under the guard: those of Update, UpdateAndRelease and Delete,
	// and the program's own with Lease.Guard in the filter.
	Writes

	// Releases end a lease: those of Release, UpdateAndRelease, Delete and Detach. The
	// same command may hand the lock over to a waiter of the Locker.
	Releases

	// CleanUps remove entries that no lease has: those of failed acquires, in the
	// background, and of cancelled tickets.
	CleanUps

	// Others are all other commands: the program's own, and the reads and upserts of
	// the library.
	Others
)

// ofKind reports whether a command is of one of the kinds. Without kinds, every
// command is.
func ofKind(command value.Document, only []Kind) bool {
	if len(only) == 0 {
		return true
	}
	kinds := kindsOf(command)
	for _, kind := range only {
		if kinds&kind != 0 {
			return true
		}
	}
	return false
}

// kindsOf reads the kinds from the features that docs/protocol.md describes.
func kindsOf(command value.Document) (kinds Kind) {
	switch command[0].Key {
	case "findAndModify":
		kinds = kindsOfWrite(command.Get("query"), command.Get("update"), command.Get("fields"))
	case "update":
		for _, statement := range value.Fields(command.Get("updates")) {
			kinds |= kindsOfWrite(value.Get(statement, "q"), value.Get(statement, "u"), value.Missing)
		}
	case "delete":
		for _, statement := range value.Fields(command.Get("deletes")) {
			kinds |= kindsOfWrite(value.Get(statement, "q"), value.Missing, value.Missing)
		}
	case "find":
		if value.Text(command.Get("comment")) == "doclock claim" { // which documents are free
			kinds = Acquires
		}
	}
	if kinds == 0 {
		return Others
	}
	return kinds
}

// kindsOfWrite reads them from a filter, an update (a deletion has none), and the
// fields of the answer.
func kindsOfWrite(filter, update, answer bson.RawValue) Kind {
	path, entry := entryIn(filter)
	lock := strings.TrimSuffix(path[:max(0, strings.LastIndexByte(path, '.'))], ".tags")
	there := func(key string) bool { return !value.IsMissing(value.Get(entry, key)) }
	image := !value.IsMissing(value.Get(answer, "__doclockNow"))
	switch {
	case path == "" && image, there("key") && !there("id") && image:
		return Acquires
	case path == "":
		return 0
	case !there("id"): // by the key of a token
		return Renewals
	case value.IsDocument(value.Get(entry, "id")): // {$in: …}
		return CleanUps
	case value.IsMissing(update), has(update, lock+".done"):
		return Writes | Releases
	case !there("fence"):
		return Releases
	}
	stages := value.Elements(update)
	switch {
	case there("n"), len(stages) == 0 || !changesOnly(stages[0], path):
		return Writes
	case len(stages) > 1, has(update, "detached"): // a handoff, a detach
		return Releases
	default:
		return Renewals
	}
}

// entryIn finds what a filter demands of an entry: of its id, its fencing token and
// more, or of its id alone. The path is the one of the tag's entries.
func entryIn(filter bson.RawValue) (path string, entry bson.RawValue) {
	for key, of := range value.Fields(filter) {
		if key == "$and" {
			for _, part := range value.Fields(of) {
				if path, entry := entryIn(part); path != "" {
					return path, entry
				}
			}
		}
		if !strings.Contains(key, ".tags.") {
			continue
		}
		if entry := value.Get(of, "$elemMatch"); !value.IsMissing(entry) {
			return key, entry
		}
		if path, isID := strings.CutSuffix(key, ".id"); isID && of.Type == bson.TypeBinary {
			return strings.TrimSuffix(path, ".0"), value.Document{{Key: "id", Value: of}}.Close()
		}
	}
	return "", value.Missing
}

// changesOnly reports whether a stage sets the entries and nothing else.
func changesOnly(stage bson.RawValue, path string) bool {
	set := value.Open(value.Get(stage, "$set"))
	return len(set) == 1 && set[0].Key == path
}

// has reports whether a field has this name, or one that ends with it, anywhere.
func has(v bson.RawValue, name string) bool { return bytes.Contains(v.Value, append([]byte(name), 0)) }
