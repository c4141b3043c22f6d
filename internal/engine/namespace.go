package engine

// Namespace is the collection's name after its database's, as in "shop.orders".
func (e *Engine) Namespace() string { return e.coll.Database().Name() + "." + e.coll.Name() }
