package model

import (
	"cmp"
	"iter"
	"slices"

	"github.com/doclock/doclock/proptest/model/interleave"
)

// ID identifies an entry: one acquire of one client. 0 is no id.
type ID int

type Tag string

// Update labels a caller's update: applying it appends the label to the
// document's log. At a server it is a $push. 0 is no update.
type Update int

// Entry is one held or waiting entry in the array of its tag.
type Entry struct {
	ID      ID
	Owner   string
	Seq     int64 // order of arrival
	Fence   int64 // fencing token; 0 (absent) while the entry is waiting
	Since   int64 // arrival
	Expires int64 // reclaimable from then on
	N       int   // number of the last guarded write that kept the lock; 0 (absent) until the first

	Key      ID    // a token's secret: the entry can be resumed by it; 0 (absent) until a detach
	Detached bool  // no handle has the entry: a detach ended the last one, and no resume came since
	Until    int64 // a release before this time leaves an entry that holds others out; 0 (absent): none
}

// Held reports whether the entry was granted.
func (e Entry) Held() bool { return e.Fence != 0 }

// Live reports whether the entry counts at the server's time now.
func (e Entry) Live(now int64) bool { return e.Expires > now }

// Bucket is the array of entries under one tag. It may be empty: a release
// leaves an empty array until the next join or grant drops it.
type Bucket struct {
	Tag     Tag
	Entries []Entry
}

type Lock struct {
	Fence int64    // last value given out, as a seq or as a fencing token
	Tags  []Bucket // in the order of the tags' names, whatever the server's order is
	Done  []ID     // the last few leases that ended with a write, newest last; nil (absent) until the first

	Broken int64 // the greatest fencing token of what a break or a take-over ended; 0 (absent) until the first
}

// Field is the state of the lock field.
type Field int

// The states of the lock field. Null counts as absent. A foreign field is never
// changed.
const (
	Absent  Field = iota
	Null          // null
	Foreign       // anything else that isn't ours: a string, an array, malformed tags, a newer version
	Ours          // Lock is its value
)

// Document is the locked document: its lock field, and the log of the applied
// updates, which stands for the other fields.
type Document struct {
	Field Field
	Lock  Lock
	Log   []Update
}

// Same reports whether two documents are equal in all fields. An empty list equals
// none; a nil document is none.
func Same(a, b *Document) bool {
	if a == b || a == nil || b == nil {
		return a == b
	}
	return a.Field == b.Field && slices.Equal(a.Log, b.Log) &&
		a.Lock.Fence == b.Lock.Fence && a.Lock.Broken == b.Lock.Broken && slices.Equal(a.Lock.Done, b.Lock.Done) &&
		slices.EqualFunc(a.Lock.Tags, b.Lock.Tags, func(x, y Bucket) bool { return x.Tag == y.Tag && slices.Equal(x.Entries, y.Entries) })
}

// With is the document with another lock field, as an outside writer leaves it. That is no command of the protocol, and
// does not ask for the lock.
func (d *Document) With(field Field, lock Lock) *Document {
	if d == nil {
		return nil
	}
	return (&Document{field, lock, d.Log}).clone()
}

func (d *Document) Find(tag Tag, id ID) (Entry, bool) {
	if d == nil || d.Field != Ours {
		return Entry{}, false
	}
	return first(d.Entries(tag), func(e Entry) bool { return e.ID == id })
}

// first returns the first entry of which is says so.
func first(entries []Entry, is func(Entry) bool) (Entry, bool) {
	if i := slices.IndexFunc(entries, is); i >= 0 {
		return entries[i], true
	}
	return Entry{}, false
}

// Entries returns the array under the tag, nil if there is none.
func (d *Document) Entries(tag Tag) []Entry {
	if b := d.bucket(tag); b != nil {
		return b.Entries
	}
	return nil
}

func (d *Document) bucket(tag Tag) *Bucket {
	for i := range d.Lock.Tags {
		if d.Lock.Tags[i].Tag == tag {
			return &d.Lock.Tags[i]
		}
	}
	return nil
}

func (d *Document) All() iter.Seq2[Tag, Entry] {
	return func(yield func(Tag, Entry) bool) {
		if d == nil {
			return
		}
		for _, b := range d.Lock.Tags {
			for _, e := range b.Entries {
				if !yield(b.Tag, e) {
					return
				}
			}
		}
	}
}

// guarded returns the entry that the lease's guard matches.
func (d *Document) guarded(l Lease, byID bool) (Entry, bool) {
	e, ok := d.Find(l.Tag, l.ID)
	return e, ok && e.Held() && (byID || e.Fence == l.Fence)
}

// clone returns a deep copy, for a command to change.
func (d *Document) clone() *Document {
	c := *d
	c.Lock.Tags = make([]Bucket, len(d.Lock.Tags), len(d.Lock.Tags)+1)
	for i, b := range d.Lock.Tags {
		c.Lock.Tags[i] = Bucket{b.Tag, slices.Clone(b.Entries)}
	}
	c.Lock.Done = slices.Clone(d.Lock.Done)
	c.Log = slices.Clone(d.Log)
	return &c
}

// at returns a pointer to a present entry, for changing a clone.
func (d *Document) at(tag Tag, id ID) *Entry {
	all := d.Entries(tag)
	return &all[slices.IndexFunc(all, func(e Entry) bool { return e.ID == id })]
}

func (d *Document) push(tag Tag, e Entry) {
	if b := d.bucket(tag); b != nil {
		b.Entries = append(b.Entries, e)
		return
	}
	d.Lock.Tags = append(d.Lock.Tags, Bucket{tag, []Entry{e}})
	slices.SortFunc(d.Lock.Tags, func(a, b Bucket) int { return cmp.Compare(a.Tag, b.Tag) })
}

// remove removes the entry from the array of its tag, and keeps the array.
func (d *Document) remove(tag Tag, id ID) {
	if b := d.bucket(tag); b != nil {
		b.Entries = slices.DeleteFunc(b.Entries, func(e Entry) bool { return e.ID == id })
	}
}

func (d *Document) String() string {
	if d == nil {
		return "no document"
	}
	if d.Field != Ours {
		return [...]string{"no lock", "null lock", "foreign lock"}[d.Field]
	}
	return interleave.Terse(d.Lock)
}
