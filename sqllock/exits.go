package sqllock

import (
	"context"
	"sync"
)

// perExit is how many who wait for one name leave it at a time. They would wait for
// each other at its row anyway, each on a connection that somebody who gives back
// a lock may need.
const perExit = 2

// exits keep a crowd that gives up a name from taking all connections.
type exits struct {
	mu  sync.Mutex // guards all and the users in it
	all map[string]*exit
}

type exit struct {
	room  chan struct{}
	users int
}

// pass waits until there is room to leave a name, and returns what gives it back.
func (e *exits) pass(ctx context.Context, name string) (done func(), err error) {
	e.mu.Lock()
	x := e.all[name]
	if x == nil {
		if e.all == nil {
			e.all = map[string]*exit{}
		}
		x = &exit{room: make(chan struct{}, perExit)}
		e.all[name] = x
	}
	x.users++
	e.mu.Unlock()
	forget := func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if x.users--; x.users == 0 {
			delete(e.all, name)
		}
	}
	select {
	case x.room <- struct{}{}:
		return func() { <-x.room; forget() }, nil
	case <-ctx.Done():
		forget()
		return nil, ctx.Err()
	}
}
