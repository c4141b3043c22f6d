package routertest

import (
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

const unauthorized = 13

// Grant has the router refuse, with code 13, each command that needs another action on
// its collection than these, as MongoDB's authorization does.
func (r *Router) Grant(actions ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.restricted, r.granted = true, actions
}

// forbid is the refusal of a command for the lack of a right, or nil.
func (r *Router) forbid(command bson.D) bson.D {
	r.mu.Lock()
	defer r.mu.Unlock()
	name, db := command[0].Key, text(command, "$db")
	if !r.restricted || db == "admin" || db == "" {
		return nil
	}
	for _, action := range needed(name, command) {
		if !slices.Contains(r.granted, action) {
			return refused(unauthorized, "Unauthorized", "not authorized on "+db+" to execute command "+name)
		}
	}
	return nil
}

// needed are the actions that MongoDB demands (privilege-actions in its manual). A
// command that isn't here needs one that nobody grants.
func needed(name string, command bson.D) (actions []string) {
	statements, _ := lookup(command, name+"s").(bson.A)
	on := func(option string) bool { return lookup(command, option) == true }
	switch name {
	case "hello", "ping", "buildInfo", "getMore", "killCursors":
		return nil
	case "find", "aggregate":
		return []string{"find"}
	case "findAndModify":
		actions = []string{"find", "update"}
		if on("remove") {
			actions[1] = "remove"
		}
	case "update":
		actions = []string{"update"}
	case "delete":
		actions = []string{"remove"}
	case "createIndexes":
		actions = []string{"createIndex"}
	default:
		return []string{"the command " + name}
	}
	if on("bypassDocumentValidation") {
		actions = append(actions, "bypassDocumentValidation")
	}
	if on("upsert") || slices.ContainsFunc(statements, func(s any) bool { return lookup(s.(bson.D), "upsert") == true }) {
		actions = append(actions, "insert")
	}
	return actions
}
