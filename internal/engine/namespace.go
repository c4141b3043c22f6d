package engine

// Namespace is the collection's name after its database's, as in "shop.orders".
func (e *Engine) Namespace() string { return e.coll.Database().Name() + "." + e.coll.Name() }

// SamePlace says that both engines lock in one field of one collection, by one
// client: two clients may be of two clusters.
func (e *Engine) SamePlace(other *Engine) bool {
	return e.coll.Database().Client() == other.coll.Database().Client() && e.SameNames(other)
}

// SameNames says that both engines lock in fields and collections of the same names.
func (e *Engine) SameNames(other *Engine) bool {
	return e.Namespace() == other.Namespace() && e.field == other.field
}
