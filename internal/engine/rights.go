package engine

import (
	"errors"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// rights are the actions on the collection that a server demands of a user for the
// commands that the library sends, by MongoDB's names: docs/rights.md. The other
// commands (hello, ping, buildInfo, and those of a user's own cursors and sessions)
// need none.
var rights = map[string][]string{
	"find":                      {"find"},
	"aggregate":                 {"find"},
	"findAndModify":             {"find", "update"},
	"findAndModify with remove": {"find", "remove"},
	"findAndModify with bypassDocumentValidation": {"bypassDocumentValidation", "find", "update"},
	"update":             {"update"},
	"update with upsert": {"insert", "update"},
	"delete":             {"remove"},
	"createIndexes":      {"createIndex"},
}

// kindOf is the command as rights name it.
func kindOf(command bson.Raw) string {
	name := command.Index(0).Key()
	for option, path := range map[string][]string{
		"remove":                   {"remove"},
		"bypassDocumentValidation": {"bypassDocumentValidation"},
		"upsert":                   {"updates", "0", "upsert"},
	} {
		if on, _ := command.Lookup(path...).BooleanOK(); on {
			return name + " with " + option
		}
	}
	return name
}

// Unauthorized adds to a server's refusal, if it is one for the lack of a right, the
// rights that the command needs. The server doesn't say which of them is missing.
func (e *Engine) Unauthorized(kind string, err error) error {
	if err == nil {
		return nil
	}
	var server mongo.ServerError
	if !errors.As(err, &server) || !server.HasErrorCode(13) || rights[kind] == nil {
		return err
	}
	return fmt.Errorf("%w; %s needs the rights %s on %s: docs/rights.md", err, kind, strings.Join(rights[kind], ", "), e.Namespace())
}
