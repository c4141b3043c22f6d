package main

import (
	"errors"
	"strings"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// unauthorized and the next are codes of servers.
const (
	unauthorized         = 13
	authenticationFailed = 18
)

// hintOf says what to do about an error, or nothing.
func hintOf(err error) string {
	var refused mongo.CommandError
	switch {
	case errors.As(err, new(*heldError)):
		return `The command was not run. Wait for longer with --wait, or see "doclock inspect".`
	case errors.Is(err, errNoServer):
		return "Set MONGODB_URI, as in export MONGODB_URI=mongodb://localhost:27017, or give --uri-file."
	case errors.As(err, &refused) && (refused.HasErrorCode(unauthorized) || refused.HasErrorCode(authenticationFailed)):
		return "Check the user, the password and authSource in the server's URI. docs/rights.md has the rights that each command needs."
	case errors.Is(err, doclock.ErrOutcomeUnknown):
		return `When the server answers again, "doclock inspect" shows what is there.`
	case errors.As(err, new(*silenceError)):
		return "Something accepts connections there and doesn't answer: look at the server. For a slow one give a longer --timeout."
	case errors.Is(err, doclock.ErrForeignLock):
		return "doclock leaves such a lock field as it is. If the application uses another field, give --field; a newer version's lock needs a newer doclock."
	case errors.Is(err, doclock.ErrUnsupportedServer):
		return `"doclock check" says what this server is and what it can't do.`
	case errors.Is(err, errNoSuchName):
		return `Check --collection and the NAME (a number's document is '{"_id": 7}'). For a lock of its own leave --collection out, or give --create.`
	case errors.Is(err, doclock.ErrNotFound):
		return `Check --collection and the _id's type: A-17 is a string; a number is '{"_id": 7}', an ObjectID '{"$oid": "…"}'.`
	case errors.Is(err, errNoOwner):
		return `An OWNER is matched as a whole, letter by letter; --prefix web-3/ takes all that begin so. "doclock ls" shows the owners.`
	case errors.Is(err, admin.ErrNoEntry):
		return `It was released, or somebody was granted the lock meanwhile. "doclock inspect" shows who is there now.`
	case errors.Is(err, doclock.ErrInvalidArgument):
		return ""
	case errors.Is(err, relations.ErrInvalidRules):
		return `"doclock rules --help" shows the form.`
	case mongo.IsTimeout(err), mongo.IsNetworkError(err), strings.Contains(err.Error(), "server selection error"):
		return "No server answered. Does it run, and do MONGODB_URI's host and port name it? With TLS, give tls=true in the URI."
	case isCobras(err):
		return "See --help."
	}
	return ""
}

// trimmed is an error's text without the package's name, which the program has
// said.
func trimmed(text string) string { return strings.ReplaceAll(text, "doclock: ", "") }
