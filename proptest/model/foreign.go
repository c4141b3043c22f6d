package model

// The effects of outside writers on the document. They are no commands of the
// protocol, and do not ask for the lock.

// Insert makes a document that was never locked, if there is none.
func Insert(d *Document) *Document {
	if d == nil {
		return &Document{}
	}
	return d
}

// Delete deletes the document.
func Delete(*Document) *Document { return nil }

// Erase removes the lock field, as a replacement of the document does.
func Erase(d *Document) *Document { return replaceLock(d, Absent, Lock{}) }

// Nullify sets the lock field to null.
func Nullify(d *Document) *Document { return replaceLock(d, Null, Lock{}) }

// Spoil puts a foreign value in the lock field.
func Spoil(d *Document) *Document { return replaceLock(d, Foreign, Lock{}) }

// PutBack saves the lock of an old copy over the document's lock.
func PutBack(d, old *Document) *Document {
	if old == nil {
		return d
	}
	return replaceLock(d, old.Field, old.clone().Lock)
}

func replaceLock(d *Document, field Field, lock Lock) *Document {
	if d == nil {
		return nil
	}
	c := d.clone()
	c.Field, c.Lock = field, lock
	return c
}
