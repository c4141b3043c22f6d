package history

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// This file reads commands from the driver's messages, without the library's
// code.

// isClaim says that the command is one of a claim.
func isClaim(body bson.Raw) bool {
	comment, _ := body.Lookup("comment").StringValueOK()
	return comment == "doclock claim"
}

// readCommands reads the effects of a findAndModify (one command, the two of a handoff, or the releases of a clean-up),
// the statements of an update that renews, releases or claims several leases, or a find of one document, or of those
// that were claimed.
func readCommands(body bson.Raw) []Command {
	first, err := body.IndexErr(0)
	if err != nil {
		return nil
	}
	switch first.Key() {
	case "findAndModify":
		query, _ := body.Lookup("query").DocumentOK()
		commands := readStatement(query, body.Lookup("update"))
		remove, _ := body.Lookup("remove").BooleanOK()
		for i := range commands {
			c := &commands[i]
			c.Kind = either(remove, CommandDelete, c.Kind)
			c.Claims = c.Kind == CommandAcquire && isClaim(body)
		}
		return commands
	case "find":
		return readFind(body)
	case "update":
		return readUpdate(body)
	default:
		return nil
	}
}

// readUpdate reads an update's statements, if they are the library's.
func readUpdate(body bson.Raw) (commands []Command) {
	comment, _ := body.Lookup("comment").StringValueOK()
	statements, _ := body.Lookup("updates").ArrayOK()
	values, _ := statements.Values()
	for _, v := range values {
		statement, _ := v.DocumentOK()
		query, _ := statement.Lookup("q").DocumentOK()
		update := statement.Lookup("u")
		read := readStatement(query, update)
		if len(read) != 1 {
			return nil // not the library's
		}
		c := read[0]
		switch many, _ := statement.Lookup("multi").BooleanOK(); {
		case many && c.Kind == CommandAcquire:
			c.Claims = true
			for _, c.Document = range documentsOf(query) {
				commands = append(commands, c)
			}
		case comment == "doclock release": // else a caller's own, under the guard
			c.Kind = CommandRelease
			commands = append(commands, c)
		case c.Kind == CommandRenew:
			commands = append(commands, c)
		default:
			return nil
		}
	}
	return commands
}

// readFind reads a find of one document whose answer shows the whole lock.
func readFind(body bson.Raw) (commands []Command) {
	one, _ := body.Lookup("singleBatch").BooleanOK()
	if !one && !isClaim(body) || body.Lookup("projection", nowKey).Type == 0 {
		return nil
	}
	level, _ := body.Lookup("readConcern", "level").StringValueOK()
	c := Command{Kind: CommandRead, Newest: level == "linearizable"}
	if one {
		return []Command{c}
	}
	filter, _ := body.Lookup("filter").DocumentOK()
	for _, c.Document = range documentsOf(filter) {
		commands = append(commands, c)
	}
	return commands
}

// conditions are those that a document must all meet: at the filter's top level, and
// under $and.
func conditions(filter bson.Raw) (all []bson.RawElement) {
	elements, _ := filter.Elements()
	for _, e := range elements {
		if e.Key() != "$and" {
			all = append(all, e)
			continue
		}
		parts, _ := e.Value().ArrayOK()
		values, _ := parts.Values()
		for _, v := range values {
			part, _ := v.DocumentOK()
			all = append(all, conditions(part)...)
		}
	}
	return all
}

// matchedAll reads the reply to an update with n statements.
func matchedAll(reply bson.Raw, n int) bool {
	return integer(reply.Lookup("n")) == int64(n) && reply.Lookup("writeErrors").Type == 0 && reply.Lookup("writeConcernError").Type == 0
}

// readStatement uses features that the protocol can't do without. An acquire
// has an owner, a renewal has a guard and a clock, and a handoff has a second
// id.
func readStatement(query bson.Raw, update bson.RawValue) []Command {
	var c Command
	if names := documentsOf(query); names != nil {
		c.Document = names[0]
	}
	stages, pipeline := update.ArrayOK()
	guard := false
	for _, e := range conditions(query) {
		path := strings.Split(e.Key(), ".")
		if len(path) < 3 || path[1] != "tags" || len(path) == 4 && path[3] != "id" { // a caller's
			continue
		}
		c.Tag = path[2]
		if len(path) == 4 { // lock.tags.<tag>.id
			c.Kind = CommandRelease
			return released(c, e.Value())
		}
		if len(path) == 5 { // lock.tags.<tag>.0.id, and …fence
			guard = true
			if path[4] == "id" {
				c.ID = uuidOf(e.Value())
			} else {
				c.Fence = integer(e.Value())
			}
			continue
		}
		match, _ := e.Value().DocumentOK()
		own, _ := match.Lookup("$elemMatch").DocumentOK()
		if c.Key = uuidOf(own.Lookup("key")); c.Key != "" {
			return []Command{keyed(c, update.Value)}
		}
		if own.Lookup("fence").IsZero() { // a clean-up, or the release of an entry with a time or a key
			c.Kind = CommandRelease
			return released(c, own.Lookup("id"))
		}
		c.ID, c.Fence, guard = uuidOf(own.Lookup("id")), integer(own.Lookup("fence")), true
		k, _ := own.Lookup("n").DocumentOK()
		if not, isNot := k.Lookup("$not").DocumentOK(); isNot {
			c.K = integer(not.Lookup("$gte"))
		}
	}
	text := update.Value
	if !guard {
		if !pipeline {
			return nil
		}
		return named(asked(c, update))
	}
	c.Write = writeIn(text)
	successor := otherID(withoutRemainder(text), c.ID)
	switch {
	case bytes.Contains(text, []byte("\x08detached\x00\x01")):
		c.Kind, c.Key = CommandDetach, otherID(text, c.ID)
	case c.K > 0:
		c.Kind = CommandWrite
	case successor != "" && pipeline:
		c.Kind = CommandRelease
		if bytes.Contains(text, []byte(".done\x00")) {
			c.Kind = CommandWriteAndRelease
		}
		values, _ := stages.Values()
		h := asked(Command{Document: c.Document, Handed: true}, values[len(values)-1])
		return append(named(c), named(h)...)
	case successor != "":
		c.Kind = CommandWriteAndRelease
		h := Command{Kind: CommandAcquire, Document: c.Document, Tag: c.Tag, ID: successor, Owner: ownerIn(text), Handed: true, Inherits: true}
		return append(named(c), h)
	case pipeline && bytes.Contains(text, []byte("$$NOW\x00")) && !bytes.Contains(text, []byte(".done\x00")):
		c.Kind = CommandRenew
	default:
		c.Kind = CommandWriteAndRelease
	}
	return named(c)
}

func named(c Command) []Command {
	if c.ID == "" {
		return nil
	}
	return []Command{c}
}

// released reads the id of a release, or the ids of a clean-up: {$in: [id, …]}.
func released(c Command, id bson.RawValue) (commands []Command) {
	for _, id := range among(id) {
		c.ID = uuidOf(id)
		commands = append(commands, named(c)...)
	}
	return commands
}

// asked reads the pipeline of an acquire or a confirm.
func asked(c Command, pipeline bson.RawValue) Command {
	text := pipeline.Value
	c.Kind, c.Owner = CommandConfirm, ownerIn(text)
	if c.Owner != "" {
		c.Kind = CommandAcquire
	}
	ids := IDs(text)
	if len(ids) > 0 {
		c.ID = ids[0]
	}
	c.Tag = tagIn(pipeline)
	c.Named = namesIn(text)
	if c.Owner == "$$own.owner" {
		c.Kind, c.Owner, c.From = CommandConvert, "", otherID(text, c.ID)
	}
	return c
}

// namesIn finds the entries that a take-over names: {id: …, fence: …}.
func namesIn(text []byte) (names []Name) {
	id, fence := []byte("\x05id\x00\x10\x00\x00\x00\x04"), []byte("\x12fence\x00")
	for {
		_, after, found := bytes.Cut(text, id)
		if !found || len(after) < 16 {
			return names
		}
		if number, is := bytes.CutPrefix(after[16:], fence); is && len(number) >= 8 {
			names = append(names, Name{ID: hex.EncodeToString(after[:16]), Fence: int64(binary.LittleEndian.Uint64(number))})
		}
		text = after
	}
}

// keyed reads a command for the entry of a token: a resume has the id of a new
// handle.
func keyed(c Command, text []byte) Command {
	c.Kind, c.ID = CommandTouch, otherID(text, c.Key)
	if c.ID != "" {
		c.Kind, c.Owner = CommandResume, strings.TrimPrefix(ownerIn(text), "$$e.owner") // the entry's, or one of its own
	}
	return c
}

// withoutRemainder is the update without the id that a remainder gets: it stands before
// the former owner.
func withoutRemainder(text []byte) []byte {
	id, owner := []byte("\x05id\x00\x10\x00\x00\x00\x04"), []byte("\x02owner\x00\x0a\x00\x00\x00$$e.owner\x00")
	for from := 0; ; from++ {
		i := bytes.Index(text[from:], id)
		if i < 0 {
			return text
		}
		from += i
		if end := from + len(id) + 16; end <= len(text) && bytes.HasPrefix(text[end:], owner) {
			return slices.Concat(text[:from], text[end:])
		}
	}
}

// documentsOf reads the documents' names from a filter: its first _id is one, or {$in: [name, …]}.
func documentsOf(filter bson.Raw) (names []string) {
	for _, e := range conditions(filter) {
		if e.Key() == "_id" && names == nil {
			for _, id := range among(e.Value()) {
				if name, ok := id.StringValueOK(); ok {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

// among are the values of {$in: [value, …]}, or a value alone.
func among(v bson.RawValue) []bson.RawValue {
	condition, ok := v.DocumentOK()
	if !ok {
		return []bson.RawValue{v}
	}
	array, _ := condition.Lookup("$in").ArrayOK()
	values, _ := array.Values()
	return values
}

// IDs finds the ids in a message, once each: binaries of 16 bytes and subtype 4.
func IDs(text []byte) (ids []string) {
	header := []byte{16, 0, 0, 0, 4}
	for i := bytes.Index(text, header); i >= 0 && len(text) >= i+21; i = bytes.Index(text, header) {
		if id := hex.EncodeToString(text[i+5 : i+21]); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
		text = text[i+21:]
	}
	return ids
}

// otherID is the other id in an update, besides the lease's.
func otherID(text []byte, own string) string {
	for _, id := range IDs(text) {
		if id != own {
			return id
		}
	}
	return ""
}

// ownerIn finds the owner of the entry that an update makes: a string, perhaps
// as {$literal: …}.
func ownerIn(text []byte) string {
	_, text, found := bytes.Cut(text, []byte("owner\x00"))
	if !found {
		return ""
	}
	if _, literal, found := bytes.Cut(text[:min(len(text), 16)], []byte("$literal\x00")); found {
		text = text[min(len(text), 16)-len(literal):]
	}
	if len(text) < 4 {
		return ""
	}
	text = text[4:] // its length
	return string(text[:max(0, bytes.IndexByte(text, 0))])
}

// tagIn finds the tag that an entry is added to: {<tag>: {$concatArrays: …}},
// or {<tag>: [entry]} if no other entry can be under it.
func tagIn(v bson.RawValue) string {
	elements, _ := bson.Raw(v.Value).Elements() // an array is laid out as a document is
	for _, e := range elements {
		nested, adds := e.Value(), false
		switch nested.Type {
		case bson.TypeArray:
			first, _ := nested.Array().IndexErr(0)
			entry, _ := first.DocumentOK()
			adds = entry.Lookup("owner").Type != 0
		case bson.TypeEmbeddedDocument:
			adds = nested.Document().Lookup("$concatArrays").Type != 0
		default:
			continue
		}
		if adds {
			return e.Key()
		}
		if tag := tagIn(nested); tag != "" {
			return tag
		}
	}
	return ""
}

// WriteMark is the prefix of the names of writes in updates, so that they can
// be found in the commands.
const WriteMark = "w:"

func writeIn(text []byte) string {
	i := bytes.Index(text, []byte("/"+WriteMark))
	if i < 0 {
		return ""
	}
	text = text[i+1:]
	end := bytes.IndexByte(text, 0)
	if end < 0 {
		return ""
	}
	return string(text[:end])
}

// This file reads replies and images from the driver's messages, without the
// library's code.

// readReply reads the command's result. Of several releases in one command,
// those whose entries the image has have matched.
func (c *Command) readReply(reply bson.Raw, several bool) {
	value, isDocument := reply.Lookup("value").DocumentOK()
	if c.Kind == CommandRead {
		value, isDocument = shown(reply, c.Document)
	}
	if !isDocument {
		return
	}
	c.Matched = true
	switch c.Kind {
	case CommandAcquire, CommandConfirm, CommandResume, CommandConvert, CommandRead:
		c.Image = ReadImage(value)
	case CommandRelease:
		own, _ := value.Lookup("__doclockOwn").ArrayOK()
		for _, e := range readEntries(c.Tag, own) {
			if e.ID == c.ID {
				c.Own = &e
			}
		}
		if c.Own == nil { // a stored image: whole, and from before the release
			if e, there := ReadImage(value).find(c.ID); there {
				c.Own = &e
			}
		}
		c.Matched = c.Own != nil || !several
	}
	if c.Document == "" && c.Matched { // the filter names none
		c.Document, _ = value.Lookup("_id").StringValueOK()
	}
}

// shown is the document of this name in the reply to a find, or the first one without a name.
func shown(reply bson.Raw, name string) (bson.Raw, bool) {
	batch, _ := reply.Lookup("cursor", "firstBatch").ArrayOK()
	values, _ := batch.Values()
	for _, v := range values {
		doc, _ := v.DocumentOK()
		if id, _ := doc.Lookup("_id").StringValueOK(); name == "" || id == name {
			return doc, true
		}
	}
	return nil, false
}

const nowKey = "__doclockNow"

// ReadImage reads the lock field, and the server's time if the image has it.
func ReadImage(document bson.Raw) *Image {
	img := &Image{}
	if now, ok := document.Lookup(nowKey).DateTimeOK(); ok {
		img.Now = now
	}
	lock, _ := document.Lookup("lock").DocumentOK()
	img.Fence, img.Broken = integer(lock.Lookup("fence")), integer(lock.Lookup("broken"))
	tags, _ := lock.Lookup("tags").DocumentOK()
	elements, _ := tags.Elements()
	for _, t := range elements {
		array, _ := t.Value().ArrayOK()
		img.Entries = append(img.Entries, readEntries(t.Key(), array)...)
	}
	return img
}

func readEntries(tag string, array bson.RawArray) (entries []Entry) {
	values, _ := array.Values()
	for _, v := range values {
		doc, _ := v.DocumentOK()
		since, _ := doc.Lookup("since").DateTimeOK()
		expires, _ := doc.Lookup("expires").DateTimeOK()
		until, _ := doc.Lookup("until").DateTimeOK()
		entries = append(entries, Entry{
			Tag:     tag,
			ID:      uuidOf(doc.Lookup("id")),
			Seq:     integer(doc.Lookup("seq")),
			Fence:   integer(doc.Lookup("fence")),
			Since:   since,
			Expires: expires,
			N:       integer(doc.Lookup("n")),
			Key:     uuidOf(doc.Lookup("key")),
			Until:   until,
		})
	}
	return entries
}

func uuidOf(v bson.RawValue) string {
	subtype, data, ok := v.BinaryOK()
	if !ok || subtype != 4 {
		return ""
	}
	return hex.EncodeToString(data)
}

func integer(v bson.RawValue) int64 {
	n, _ := v.AsInt64OK()
	return n
}
