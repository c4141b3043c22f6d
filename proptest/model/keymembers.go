package model

// members distinguishes what the members of a replica set have.
func (k *keyer) members(w *world) {
	if len(w.members) == 1 {
		return
	}
	k.put(int64(w.leader), int64(w.elections), max(-w.cfg.ttl, w.ghost.born-w.time))
	for i := range w.members {
		p := &w.members[i]
		k.put(bit(p.primary), bit(len(p.tail) > 0))
		k.document(w, p.known)
		if i != w.leader { // of what is never committed, the outcome is enough
			k.document(w, w.latest(i))
			continue
		}
		k.put(int64(len(p.tail)))
		for j := range p.tail {
			ev := &p.tail[j]
			k.message(w, &ev.message)
			k.put(ev.now-w.time, ev.at-w.time, bit(ev.orphan))
			k.bytes = append(k.bytes, ev.outcome...)
			k.document(w, ev.after)
		}
	}
}

// collectMembers gathers the numbers and the ids of their documents.
func (k *keyer) collectMembers(w *world) {
	for i := range w.members {
		p := &w.members[i]
		k.collectDocument(p.known)
		if i != w.leader {
			k.collectDocument(w.latest(i))
			continue
		}
		for j := range p.tail {
			k.collectMessage(&p.tail[j].message)
			k.collectDocument(p.tail[j].after)
		}
	}
}
