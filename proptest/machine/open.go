package machine

import (
	"slices"

	"github.com/doclock/doclock/proptest/model"
)

// The protocol's text leaves these points open, and they are compared as
// follows:
//
//   - A confirm may keep its entry's position in its array, or move it to the
//     end; `seq` keeps the order of arrival. A confirm that is blocked, or
//     finds its entry held, may prune or not. The model does neither, and
//     goes on from the library's result. See afterConfirm.
//   - The order of the tags in `tags` has no meaning: they are compared sorted.
//   - An absent `tags`, an empty one and null are the same, as are an absent
//     `fence`, null and 0, and an array of a tag and null. (Not so an empty array
//     and none: only a join or a grant drops the emptied.)
//   - A classic update that releases makes a remainder though its time has
//     passed: the remainder has expired. The model is asked as of before that
//     time.
//   - The outcome of a release without a fence (a clean-up's) only tells
//     whether the entry was present.
//   - A downgrade has no filter: of a field that is not a lock it is answered with
//     that, where the model says that the entry is lost.
//   - Integers may be stored as any of BSON's numbers, but for a new lock.fence,
//     which is a Long.

// afterConfirm lists the documents that are allowed when the model's is d.
func afterConfirm(d *model.Document, tag model.Tag, id model.ID, now int64) []*model.Document {
	if _, there := d.Find(tag, id); !there {
		return []*model.Document{d}
	}
	return []*model.Document{d, last(d, tag, id), last(pruned(d, id, now), tag, id), pruned(d, id, now)}
}

// last moves an entry to the end of its array.
func last(d *model.Document, tag model.Tag, id model.ID) *model.Document {
	c := d.With(d.Field, d.Lock)
	for i, b := range c.Lock.Tags {
		for j, e := range b.Entries {
			if b.Tag == tag && e.ID == id {
				c.Lock.Tags[i].Entries = append(slices.Delete(b.Entries, j, j+1), e)
				return c
			}
		}
	}
	return c
}

// pruned drops expired entries, except the own entry, and empty arrays.
func pruned(d *model.Document, own model.ID, now int64) *model.Document {
	c := d.With(d.Field, d.Lock)
	for i := range c.Lock.Tags {
		b := &c.Lock.Tags[i]
		b.Entries = slices.DeleteFunc(b.Entries, func(e model.Entry) bool { return e.ID != own && e.Expires <= now })
	}
	c.Lock.Tags = slices.DeleteFunc(c.Lock.Tags, func(b model.Bucket) bool { return len(b.Entries) == 0 })
	return c
}
