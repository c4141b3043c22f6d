package multilock

// Waiters is how many stand in a document's line.
func (l *Locker) Waiters(id any) int {
	l.queue.mu.Lock()
	defer l.queue.mu.Unlock()
	line := l.queue.lines[key(id)]
	if line == nil {
		return 0
	}
	n := 0
	for _, t := range line.tags {
		for e := t.Front(); e != nil; e = e.Next() {
			if e.Value.(*waiter).state == asleep {
				n++
			}
		}
	}
	return n
}

// Lines is how many documents the Locker remembers waiters of.
func (l *Locker) Lines() int {
	l.queue.mu.Lock()
	defer l.queue.mu.Unlock()
	return len(l.queue.lines)
}
