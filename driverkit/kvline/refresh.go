package kvline

import (
	"context"
	"sync"
	"time"
)

// refreshLimit bounds a read ahead.
const refreshLimit = 5 * time.Second

// reads are the lines that are read ahead.
type reads struct {
	mu    sync.Mutex      // guards again
	again map[string]bool // by name, while it is read: whether the line has changed since that began
}

// refresh reads the line of a name whose holder is of this engine, because another claim
// waits there now, or the notice of the grant could not carry the line: the holder would give
// the name back with a write on what it knew before, which is refused, and the other one
// would wait for three round trips in place of one.
func (e *Engine) refresh(name string) {
	r := &e.reads
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.again == nil {
		r.again = map[string]bool{}
	}
	if _, reading := r.again[name]; reading {
		r.again[name] = true
		return
	}
	if e.sessions.Go(func(ctx context.Context) { e.readAhead(ctx, name) }) == nil {
		r.again[name] = false
	}
}

func (e *Engine) readAhead(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, refreshLimit)
	defer cancel()
	for more := true; more; {
		_, _, err := e.fetch(ctx, name)
		e.reads.mu.Lock()
		more = err == nil && e.reads.again[name]
		if e.reads.again[name] = false; !more {
			delete(e.reads.again, name)
		}
		e.reads.mu.Unlock()
	}
}
