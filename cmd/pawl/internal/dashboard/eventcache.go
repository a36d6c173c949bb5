package dashboard

import (
	"sync"
	"time"
)

// maxCached limits the pages of one state that are kept.
const maxCached = 2 * maxStreams

// An eventCache keeps the events of the current state, so that browsers that look at
// the same page share the rendering.
type eventCache struct {
	mu     sync.Mutex // guards the fields below
	state  *state
	events map[string]*cachedEvent
}

type cachedEvent struct {
	mu    sync.Mutex // guards the fields below, and is held while the event is rendered
	at    time.Time
	event []byte
	names []string
}

// get returns the event of a page, which key identifies, and the names that it shows.
// One that is older than refresh is rendered again: ages have changed.
func (c *eventCache) get(s *state, key string, render func() ([]byte, []string)) ([]byte, []string) {
	e := c.find(s, key)
	if e == nil {
		return render()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if time.Since(e.at) >= refresh/2 {
		e.event, e.names = render()
		e.at = time.Now()
	}
	return e.event, e.names
}

// find returns the entry of a page, or nil if there are too many.
func (c *eventCache) find(s *state, key string) *cachedEvent {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != s {
		c.state, c.events = s, map[string]*cachedEvent{}
	}
	e := c.events[key]
	if e == nil && len(c.events) < maxCached {
		e = &cachedEvent{}
		c.events[key] = e
	}
	return e
}
