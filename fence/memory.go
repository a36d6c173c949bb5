package fence

import "sync"

// A Guard keeps the marks of a resource inside this process. Its zero value has no
// marks. They end with the process: use it only for what the process alone owns, such
// as a device or a connection.
type Guard struct {
	mu    sync.Mutex // guards marks, and whatever Do is called with
	marks Marks
}

// Begin raises the mark to token, or returns ErrStale.
func (g *Guard) Begin(mode Mode, token uint64) error { return g.Do(mode, token, nil) }

// Check reports ErrStale if a later holder has begun. The answer may be out
// of date when it returns; an effect belongs into Do.
func (g *Guard) Check(mode Mode, token uint64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, err := g.marks.Admit(mode, token)
	return err
}

// Do raises the mark and runs effect; no other holder begins meanwhile.
func (g *Guard) Do(mode Mode, token uint64, effect func() error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	marks, err := g.marks.Admit(mode, token)
	if err != nil {
		return err
	}
	g.marks = marks
	if effect == nil {
		return nil
	}
	return effect()
}
