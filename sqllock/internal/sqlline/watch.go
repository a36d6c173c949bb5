package sqlline

import "context"

// Watch tells of departures from name's line as soon as the dialect learns of them.
func (e *Engine) Watch(ctx context.Context, name string) (<-chan struct{}, error) {
	if err := e.sessions.Begin(ctx); err != nil {
		return nil, err
	}
	seen, err := e.departures(ctx, name)
	if err != nil {
		return nil, err
	}
	departures := e.watchers.Watch(ctx, name, seen)
	e.pollSoon(name)
	e.mu.Lock()
	closeLocked(&e.watching)
	e.mu.Unlock()
	e.startListening()
	return departures, nil
}
