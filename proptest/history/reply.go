package history

import (
	"encoding/hex"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// This file reads replies and images from the driver's messages, without the
// library's code.

// readReply reads the command's result. Of several releases in one command,
// those whose entries the image has have matched.
func (c *Command) readReply(reply bson.Raw, several bool) {
	value, isDocument := reply.Lookup("value").DocumentOK()
	if !isDocument {
		return
	}
	c.Matched = true
	if c.Document == "" { // a filter that names none
		c.Document, _ = value.Lookup("_id").StringValueOK()
	}
	switch c.Kind {
	case CommandAcquire, CommandConfirm, CommandResume, CommandDowngrade:
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
}

// ReadImage reads the lock field, and the server's time if the image has it.
func ReadImage(document bson.Raw) *Image {
	img := &Image{}
	if now, ok := document.Lookup("__doclockNow").DateTimeOK(); ok {
		img.Now = now
	}
	lock, _ := document.Lookup("lock").DocumentOK()
	img.Fence = integer(lock.Lookup("fence"))
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
