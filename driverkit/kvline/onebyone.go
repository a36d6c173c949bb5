package kvline

import (
	"context"
	"sync"
)

// oneByOne lets calls about a name follow one another, in the order in which they came.
type oneByOne struct {
	mu     sync.Mutex // guards byName and the users in it
	byName map[string]*callers
}

type callers struct {
	inside chan struct{} // has one while a call is made
	users  int           // that are inside or wait
}

// begin waits until no other call about the name is made. Unless it returns an error, the
// caller must call end.
func (o *oneByOne) begin(ctx context.Context, name string) error {
	o.mu.Lock()
	c := o.byName[name]
	if c == nil {
		if o.byName == nil {
			o.byName = map[string]*callers{}
		}
		c = &callers{inside: make(chan struct{}, 1)}
		o.byName[name] = c
	}
	c.users++
	o.mu.Unlock()
	select {
	case c.inside <- struct{}{}: // mostly: a ctx that is not waited for costs less
		return nil
	default:
	}
	select {
	case c.inside <- struct{}{}:
		return nil
	case <-ctx.Done():
		o.forget(name)
		return ctx.Err()
	}
}

func (o *oneByOne) end(name string) { <-o.forget(name).inside }

// forget removes a user.
func (o *oneByOne) forget(name string) *callers {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.byName[name]
	if c.users--; c.users == 0 {
		delete(o.byName, name)
	}
	return c
}
