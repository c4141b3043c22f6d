package store

import (
	"errors"
	"slices"

	"github.com/doclock/doclock/locktest/internal/query"
	"github.com/doclock/doclock/locktest/internal/stage"
	"github.com/doclock/doclock/locktest/internal/update"
	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// findAndModify changes the first document that matches, and answers with it.
func (c *command) findAndModify() (value.Document, error) {
	filter, u := c.Get("query"), c.updateOf(c.Document, c.Get("update"))
	switch remove := value.Truth(c.Get("remove")); {
	case !remove:
		if err := c.checkUpdate(c.Document, filter, u); err != nil {
			return nil, err
		}
	case value.Truth(c.Get("new")) || value.Truth(c.Get("upsert")) || !value.IsMissing(u.Spec):
		return nil, value.Refuse(value.FailedToParse, "Cannot specify both remove=true and new, upsert or an update")
	}
	if err := c.query.Check(filter); err != nil {
		return nil, err
	}
	projection, err := stage.ParseProjection(c.Get("fields"))
	if err == nil {
		err = projection.Fold(c.query)
	}
	if err != nil {
		return nil, err
	}
	records, err := c.targets(filter, 0)
	if err != nil {
		return nil, err
	}
	if keys := c.Get("sort"); !value.IsMissing(keys) {
		if err := stage.Sort(keys, records, func(r *record) bson.RawValue { return r.document }); err != nil {
			return nil, err
		}
	}
	answer := value.Null
	last := value.Document{{Key: "n", Value: value.Int(int32(min(len(records), 1)))}}
	if !value.Truth(c.Get("remove")) {
		last = append(last, value.Field{Key: "updatedExisting", Value: value.Bool(len(records) > 0)})
	}
	switch {
	case len(records) > 0 && value.Truth(c.Get("remove")):
		answer = records[0].document
		if err := c.change(answer, value.Missing); err != nil {
			return nil, err
		}
	case len(records) > 0:
		answer = records[0].document
		after, _, err := u.Apply(answer)
		if err != nil {
			return nil, err
		}
		if err := c.put(answer, after); err != nil {
			return nil, err
		}
		if value.Truth(c.Get("new")) {
			answer = after
		}
	case value.Truth(c.Get("upsert")):
		made, err := c.upsert(filter, u)
		if err != nil {
			return nil, err
		}
		if value.Truth(c.Get("new")) {
			answer = made
		}
		last = append(last.Set("n", value.Int(1)), value.Field{Key: "upserted", Value: value.Get(made, "_id")})
	}
	if value.IsDocument(answer) {
		if answer, err = projection.Of(answer, c.query); err != nil {
			return nil, err
		}
	}
	return value.Document{{Key: "lastErrorObject", Value: last.Close()}, {Key: "value", Value: answer}}, nil
}

func (c *command) updateOf(statement value.Document, spec bson.RawValue) update.Update {
	return update.Update{Spec: spec, Filters: statement.Get("arrayFilters"), Query: c.query, Now: value.Time(c.Now)}
}

// checkUpdate refuses an update that no document can be changed or made with.
func (c *command) checkUpdate(statement value.Document, filter bson.RawValue, u update.Update) error {
	if value.Truth(statement.Get("upsert")) {
		if err := query.WithoutExpr(filter, value.NotAllowed); err != nil {
			return err
		}
	}
	return u.Check()
}

// checkStatements refuses a command that has several if they are not what it takes.
func (c *command) checkStatements(list string) error {
	all := value.Elements(c.Get(list))
	switch {
	case value.IsMissing(c.Get(list)):
		return value.Refuse(value.Required, "%s.%s is missing, and is required", c.name, list)
	case !value.IsArray(c.Get(list)):
		return value.Refuse(value.TypeMismatch, "%s.%s is of type %s, and must be an array", c.name, list, value.TypeName(c.Get(list)))
	case len(all) == 0:
		return value.Refuse(value.InvalidLength, "%s needs a list %q with at least one document", c.name, list)
	}
	for i, statement := range all {
		d := value.Open(statement)
		if !value.IsDocument(statement) {
			return value.Refuse(value.TypeMismatch, "%s.%s.%d is of type %s, and must be an object", c.name, list, i, value.TypeName(statement))
		}
		known := statements[list]
		if known == nil {
			continue
		}
		if err := refuseFields(d, "a statement of "+c.name, known); err != nil {
			return err
		}
		for _, needed := range known[:2] {
			if value.IsMissing(d.Get(needed)) {
				return value.Refuse(value.Required, "%s.%s.%s is missing, and is required", c.name, list, needed)
			}
		}
		if n, whole := value.Whole(d.Get("limit")); list == "deletes" && (!whole || n != 0 && n != 1) {
			return value.Refuse(value.FailedToParse, "The limit field in delete objects must be 0 or 1: %s", d.Get("limit"))
		}
	}
	return nil
}

// Progress is how far a command with statements has come that waits.
type Progress struct {
	next     int             // the statement that is to be executed
	passed   []bson.RawValue // the _ids of the documents that it has passed already
	changed  int             // how many of them are different now
	made     bson.RawValue   // the document that it is to insert
	n        int
	modified int
	upserted []bson.RawValue
	faults   []bson.RawValue
}

// Again is the progress for a repeat of the command elsewhere. The statement that waited begins anew.
func (p Progress) Again() Progress {
	return Progress{next: p.next, n: p.n, modified: p.modified, upserted: slices.Clip(p.upserted), faults: slices.Clip(p.faults)}
}

// each executes the statements of a command that has several. An error ends an ordered command, and one in a transaction;
// any other goes on.
func (c *command) each(list string, execute func(statement value.Document) error) error {
	ordered, statements := c.Get("ordered"), value.Elements(c.Get(list))
	for ; c.next < len(statements); c.next++ {
		err := execute(value.Open(statements[c.next]))
		if final(err) {
			return err
		}
		c.passed, c.changed, c.made = nil, 0, value.Missing
		if err == nil {
			continue
		}
		refusal := value.Refuse(value.BadValue, "%v", err)
		errors.As(err, &refusal)
		c.faults = append(c.faults, append(value.Document{
			{Key: "index", Value: value.Int(int32(c.next))},
			{Key: "code", Value: value.Int(refusal.Code)},
			{Key: "errmsg", Value: value.String(refusal.Message)},
		}, refusal.More...).Close())
		if value.IsMissing(ordered) || value.Truth(ordered) || c.In != nil {
			break
		}
	}
	return nil
}

// targets are the documents that a statement changes: none if it waited to insert one.
func (c *command) targets(filter bson.RawValue, limit int) ([]*record, error) {
	if !value.IsMissing(c.made) {
		return nil, nil
	}
	return c.collection().matching(c.query, filter, limit)
}

// pass changes documents one after the other, and not again those that it has changed before it waited.
func (c *command) pass(records []*record, change func(before bson.RawValue) error) error {
	before := c.passed
	for _, r := range records {
		id := value.Get(r.document, "_id")
		if slices.ContainsFunc(before, func(other bson.RawValue) bool { return value.Equal(id, other) }) {
			continue
		}
		if err := change(r.document); err != nil {
			return err
		}
		c.passed = append(c.passed, id)
	}
	return nil
}

// report is the reply of a command with statements.
func (c *command) report(more ...value.Field) value.Document {
	reply := append(value.Document{{Key: "n", Value: value.Int(int32(c.n))}}, more...)
	if len(c.faults) > 0 {
		reply = append(reply, value.Field{Key: "writeErrors", Value: value.Array(c.faults)})
	}
	return reply
}

func (c *command) inserts() (value.Document, error) {
	if err := c.checkStatements("documents"); err != nil {
		return nil, err
	}
	err := c.each("documents", func(d value.Document) error {
		err := c.insert(d.Close())
		if err == nil {
			c.n++
		}
		return err
	})
	return c.report(), err
}

func (c *command) update() (value.Document, error) {
	if err := c.checkStatements("updates"); err != nil {
		return nil, err
	}
	if err := c.each("updates", c.updateStatement); err != nil {
		return nil, err
	}
	var more []value.Field
	if len(c.upserted) > 0 {
		more = append(more, value.Field{Key: "upserted", Value: value.Array(c.upserted)})
	}
	return c.report(append(more, value.Field{Key: "nModified", Value: value.Int(int32(c.modified))})...), nil
}

func (c *command) updateStatement(statement value.Document) error {
	limit := 1
	if value.Truth(statement.Get("multi")) {
		limit = 0
	}
	filter, u := statement.Get("q"), c.updateOf(statement, statement.Get("u"))
	if err := c.checkUpdate(statement, filter, u); err != nil {
		return err
	}
	if limit == 0 && u.Replaces() {
		return value.Refuse(value.FailedToParse, "multi update is not supported for replacement-style update")
	}
	records, err := c.targets(filter, limit)
	if err != nil {
		return err
	}
	if len(records)+len(c.passed) == 0 && value.Truth(statement.Get("upsert")) {
		made, err := c.upsert(filter, u)
		if err == nil {
			c.n++
			c.upserted = append(c.upserted, value.Document{{Key: "index", Value: value.Int(int32(c.next))}, {Key: "_id", Value: value.Get(made, "_id")}}.Close())
		}
		return err
	}
	err = c.pass(records, func(before bson.RawValue) error { // one that can't be changed leaves the changes before it
		after, different, err := u.Apply(before)
		if err == nil {
			err = c.put(before, after)
		}
		if err == nil && different {
			c.changed++
		}
		return err
	})
	if err != nil {
		return err
	}
	c.n, c.modified = c.n+len(c.passed), c.modified+c.changed
	return nil
}

func (c *command) delete() (value.Document, error) {
	if err := c.checkStatements("deletes"); err != nil {
		return nil, err
	}
	err := c.each("deletes", func(statement value.Document) error {
		limit, _ := value.Whole(statement.Get("limit"))
		records, err := c.targets(statement.Get("q"), int(limit))
		if err != nil {
			return err
		}
		if err := c.pass(records, func(before bson.RawValue) error { return c.change(before, value.Missing) }); err != nil {
			return err
		}
		c.n += len(c.passed)
		return nil
	})
	return c.report(), err
}
