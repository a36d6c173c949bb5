package quorum

// ID returns the ID by which the nodes know the quorum.
func (e *Engine) ID() string { return e.set.ID }

// Waiters returns how many claims the watch of a name remembers.
func (e *Engine) Waiters(name string) int {
	w := e.watches.find(name)
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.waiters)
}
