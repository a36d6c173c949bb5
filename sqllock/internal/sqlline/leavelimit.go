package sqlline

import (
	"context"
	"sync"
)

// leaveConns is how many waiting claims leave the line of one name at a time. They
// would wait for each other at its head row anyway, each on a connection that the
// release of a lock may need.
const leaveConns = 2

// A leaveLimit keeps many waiters that give up the same name from using all connections.
type leaveLimit struct {
	mu     sync.Mutex // guards byName, and users in it
	byName map[string]*leaveSlots
}

type leaveSlots struct {
	slots chan struct{}
	users int
}

// enter waits for a slot to leave a name's line; done gives it back.
func (l *leaveLimit) enter(ctx context.Context, name string) (done func(), err error) {
	x := l.use(name)
	select {
	case x.slots <- struct{}{}:
		return func() { <-x.slots; l.unuse(name, x) }, nil
	case <-ctx.Done():
		l.unuse(name, x)
		return nil, ctx.Err()
	}
}

func (l *leaveLimit) use(name string) *leaveSlots {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byName == nil {
		l.byName = map[string]*leaveSlots{}
	}
	x := l.byName[name]
	if x == nil {
		x = &leaveSlots{slots: make(chan struct{}, leaveConns)}
		l.byName[name] = x
	}
	x.users++
	return x
}

func (l *leaveLimit) unuse(name string, x *leaveSlots) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x.users--; x.users == 0 {
		delete(l.byName, name)
	}
}
