package routertest

import (
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

const shardKeyNotFound = 61

// route returns the command for the shard, or the router's refusal.
func (r *Router) route(command bson.D) (routed, refusal bson.D) {
	if refusal := r.forbid(command); refusal != nil {
		return nil, refusal
	}
	name := command[0].Key
	namespace := text(command, "$db") + "." + text(command, name)
	r.mu.Lock()
	key := r.keys[namespace]
	r.mu.Unlock()
	switch {
	case len(key) == 0:
	case name == "findAndModify":
		if q, _ := lookup(command, "query").(bson.D); !hasKey(q, key) {
			r.count()
			return nil, refused(shardKeyNotFound, "ShardKeyNotFound", "Query for sharded findAndModify must contain the shard key")
		}
	case name == "update", name == "delete":
		if refusal := r.refuseStatements(name, command, key); refusal != nil {
			return nil, refusal
		}
	}
	command = slices.Clone(command)
	if r.alone { // a standalone server has no retryable writes
		command = slices.DeleteFunc(command, func(e bson.E) bool { return e.Key == "txnNumber" })
	}
	switch name {
	case "findAndModify", "update", "delete", "find", "aggregate":
		return stamped(command, r.now()).(bson.D), nil
	default:
		return command, nil
	}
}

// refuseStatements refuses a command with a statement that names neither its
// document nor its shard. A router executes the other statements of an
// unordered command. This one doesn't, because no test can draw conclusions
// from that.
func (r *Router) refuseStatements(name string, command bson.D, key []string) bson.D {
	var errs bson.A
	statements, _ := lookup(command, name+"s").(bson.A)
	for i, s := range statements {
		statement, _ := s.(bson.D)
		if multi, _ := lookup(statement, "multi").(bool); multi {
			continue
		}
		if limit := lookup(statement, "limit"); name == "delete" && limit != int32(1) {
			continue
		}
		q, _ := lookup(statement, "q").(bson.D)
		upsert, _ := lookup(statement, "upsert").(bool)
		if hasKey(q, key) || !upsert && hasKey(q, []string{"_id"}) {
			continue
		}
		r.count()
		errs = append(errs, bson.D{
			{Key: "index", Value: int32(i)}, {Key: "code", Value: int32(shardKeyNotFound)},
			{Key: "errmsg", Value: "A single " + name + " on a sharded collection must contain an exact match on _id or contain the shard key"},
		})
	}
	if len(errs) == 0 {
		return nil
	}
	return bson.D{{Key: "ok", Value: 1.0}, {Key: "n", Value: int32(0)}, {Key: "nModified", Value: int32(0)}, {Key: "writeErrors", Value: errs}}
}

func (r *Router) count() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused++
}

func refused(code int, name, text string) bson.D {
	return bson.D{
		{Key: "ok", Value: 0.0}, {Key: "errmsg", Value: text},
		{Key: "code", Value: int32(code)}, {Key: "codeName", Value: name},
	}
}

// pass is a shard's answer in the router's form.
func (r *Router) pass(command, answer bson.D) bson.D {
	answer = slices.DeleteFunc(answer, func(e bson.E) bool { return e.Key == "errorLabels" })
	switch strings.ToLower(command[0].Key) {
	case "hello", "ismaster":
	default:
		return answer
	}
	answer = slices.DeleteFunc(answer, func(e bson.E) bool {
		return slices.Contains([]string{
			"msg", "localTime", "topologyVersion", "setName", "setVersion", "hosts", "passives", "arbiters", "primary", "me",
			"electionId", "secondary", "lastWrite", "$clusterTime", "operationTime",
		}, e.Key)
	})
	answer = append(answer, bson.E{Key: "msg", Value: "isdbgrid"}, bson.E{Key: "localTime", Value: r.now()})
	if lookup(answer, "logicalSessionTimeoutMinutes") == nil {
		answer = append(answer, bson.E{Key: "logicalSessionTimeoutMinutes", Value: int32(30)})
	}
	if db := text(command, "$db"); db != "admin" && db != "" { // to its heartbeats the driver would expect a stream of answers
		answer = append(answer, bson.E{Key: "topologyVersion", Value: bson.D{{Key: "processId", Value: r.process}, {Key: "counter", Value: int64(0)}}})
	}
	return answer
}

// stamped replaces $$NOW by a time, everywhere.
func stamped(v any, now bson.DateTime) any {
	switch v := v.(type) {
	case string:
		if v == "$$NOW" {
			return now
		}
	case bson.D:
		out := make(bson.D, len(v))
		for i, e := range v {
			out[i] = bson.E{Key: e.Key, Value: stamped(e.Value, now)}
		}
		return out
	case bson.A:
		out := make(bson.A, len(v))
		for i, e := range v {
			out[i] = stamped(e, now)
		}
		return out
	}
	return v
}
