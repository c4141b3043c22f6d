package store

import (
	"errors"

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
	if err := query.Check(filter); err != nil {
		return nil, err
	}
	projection, err := stage.ParseProjection(c.Get("fields"))
	if err == nil {
		err = projection.Fold(c.query)
	}
	if err != nil {
		return nil, err
	}
	records, err := c.collection().matching(c.query, filter, 0)
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
		c.collection().remove(records[0])
	case len(records) > 0:
		answer = records[0].document
		after, _, err := u.Apply(answer)
		if err != nil {
			return nil, err
		}
		if err := c.collection().put(records[0], after); err != nil {
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
	return update.Update{Spec: spec, Filters: statement.Get("arrayFilters"), Query: c.query}
}

// checkUpdate refuses an update that no document can be changed or made with.
func (c *command) checkUpdate(statement value.Document, filter bson.RawValue, u update.Update) error {
	if value.Truth(statement.Get("upsert")) {
		if err := query.CheckUpsert(filter); err != nil {
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

// each executes the statements of a command that has several. An error ends an
// ordered command; any other goes on.
func (c *command) each(list string, execute func(i int, statement value.Document) error) (faults []bson.RawValue) {
	ordered := c.Get("ordered")
	for i, statement := range value.Elements(c.Get(list)) {
		err := execute(i, value.Open(statement))
		if err == nil {
			continue
		}
		refusal := value.Refuse(value.BadValue, "%v", err)
		errors.As(err, &refusal)
		faults = append(faults, value.Document{
			{Key: "index", Value: value.Int(int32(i))},
			{Key: "code", Value: value.Int(refusal.Code)},
			{Key: "errmsg", Value: value.String(refusal.Message)},
		}.Close())
		if value.IsMissing(ordered) || value.Truth(ordered) {
			break
		}
	}
	return faults
}

// report is the reply of a command with statements.
func report(n int, faults []bson.RawValue, more ...value.Field) value.Document {
	reply := append(value.Document{{Key: "n", Value: value.Int(int32(n))}}, more...)
	if len(faults) > 0 {
		reply = append(reply, value.Field{Key: "writeErrors", Value: value.Array(faults)})
	}
	return reply
}

func (c *command) insert() (value.Document, error) {
	if err := c.checkStatements("documents"); err != nil {
		return nil, err
	}
	n := 0
	faults := c.each("documents", func(_ int, d value.Document) error {
		err := c.made().insert(d.Close())
		if err == nil {
			n++
		}
		return err
	})
	return report(n, faults), nil
}

func (c *command) update() (value.Document, error) {
	if err := c.checkStatements("updates"); err != nil {
		return nil, err
	}
	n, modified := 0, 0
	var upserted []bson.RawValue
	faults := c.each("updates", func(i int, statement value.Document) error {
		limit := 1
		if value.Truth(statement.Get("multi")) {
			limit = 0
		}
		if keys := statement.Get("sort"); !value.IsMissing(keys) {
			return value.Unsupported("the sort of an update")
		}
		filter, u := statement.Get("q"), c.updateOf(statement, statement.Get("u"))
		if err := c.checkUpdate(statement, filter, u); err != nil {
			return err
		}
		if limit == 0 && u.Replaces() {
			return value.Refuse(value.FailedToParse, "multi update is not supported for replacement-style update")
		}
		records, err := c.collection().matching(c.query, filter, limit)
		if err != nil {
			return err
		}
		if len(records) == 0 && value.Truth(statement.Get("upsert")) {
			made, err := c.upsert(filter, u)
			if err == nil {
				n++
				upserted = append(upserted, value.Document{{Key: "index", Value: value.Int(int32(i))}, {Key: "_id", Value: value.Get(made, "_id")}}.Close())
			}
			return err
		}
		changed := 0
		for _, r := range records { // one that can't be changed leaves the changes before it
			after, different, err := u.Apply(r.document)
			if err != nil {
				return err
			}
			if different {
				changed++
			}
			if err := c.collection().put(r, after); err != nil {
				return err
			}
		}
		n, modified = n+len(records), modified+changed
		return nil
	})
	var more []value.Field
	if len(upserted) > 0 {
		more = append(more, value.Field{Key: "upserted", Value: value.Array(upserted)})
	}
	return report(n, faults, append(more, value.Field{Key: "nModified", Value: value.Int(int32(modified))})...), nil
}

func (c *command) delete() (value.Document, error) {
	if err := c.checkStatements("deletes"); err != nil {
		return nil, err
	}
	n := 0
	faults := c.each("deletes", func(_ int, statement value.Document) error {
		limit, _ := value.Whole(statement.Get("limit"))
		records, err := c.collection().matching(c.query, statement.Get("q"), int(limit))
		if err != nil {
			return err
		}
		c.collection().remove(records...)
		n += len(records)
		return nil
	})
	return report(n, faults), nil
}
