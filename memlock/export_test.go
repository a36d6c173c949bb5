package memlock

// Size counts what the engine remembers: lines, watchers and records.
func (e *Engine) Size() (lines, watchers, records int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.lines), len(e.watchers), len(e.records)
}
