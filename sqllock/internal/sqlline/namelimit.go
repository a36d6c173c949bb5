package sqlline

import (
	"context"
	"sync"
)

// leaveConns is how many waiting claims leave the line of one name at a time. They
// would wait for each other at its head row anyway, each on a connection that the
// release of a lock may need.
const leaveConns = 2

// A nameLimit keeps many callers of the same name from using all connections.
type nameLimit struct {
	mu     sync.Mutex // guards byName, and users in it
	byName map[string]*nameSlots
}

type nameSlots struct {
	slots chan struct{}
	users int
}

// enter waits for one of conns slots of a name; done gives it back.
func (l *nameLimit) enter(ctx context.Context, name string, conns int) (done func(), err error) {
	x := l.use(name, conns)
	select {
	case x.slots <- struct{}{}:
		return func() { <-x.slots; l.unuse(name, x) }, nil
	case <-ctx.Done():
		l.unuse(name, x)
		return nil, ctx.Err()
	}
}

func (l *nameLimit) use(name string, conns int) *nameSlots {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byName == nil {
		l.byName = map[string]*nameSlots{}
	}
	x := l.byName[name]
	if x == nil {
		x = &nameSlots{slots: make(chan struct{}, conns)}
		l.byName[name] = x
	}
	x.users++
	return x
}

func (l *nameLimit) unuse(name string, x *nameSlots) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x.users--; x.users == 0 {
		delete(l.byName, name)
	}
}
