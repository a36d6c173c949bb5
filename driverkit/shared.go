package driverkit

import (
	"context"
	"sync"
)

// Shared makes one call for all who ask for the same while another is under way. What they
// get was asked for after each of them came: it is as new as if they had called alone. The
// zero value is ready for use.
type Shared[T any] struct {
	mu    sync.Mutex // guards byKey and what its calls have in it
	byKey map[string]*sharedCalls[T]
}

// sharedCalls are the call that is under way for a key, and the next.
type sharedCalls[T any] struct {
	turn  chan struct{} // has one while no call is under way
	users int
	next  *sharedCall[T] // nil: nobody waits for it
}

// A sharedCall is a call that is not made yet, or its answer.
type sharedCall[T any] struct {
	done  chan struct{} // closed when what follows is known
	value T
	err   error
}

// Do returns what call returns, called here or by another who asked for the same. call gets
// the ctx of whom it is called by; a call that fails when that has ended is made again by
// the others. They share the value, which nobody may change.
func (g *Shared[T]) Do(ctx context.Context, key string, call func(context.Context) (T, error)) (value T, err error) {
	g.mu.Lock()
	calls := g.byKey[key]
	if calls == nil {
		calls = &sharedCalls[T]{turn: make(chan struct{}, 1)}
		calls.turn <- struct{}{}
		if g.byKey == nil {
			g.byKey = map[string]*sharedCalls[T]{}
		}
		g.byKey[key] = calls
	}
	calls.users++
	if calls.next == nil {
		calls.next = &sharedCall[T]{done: make(chan struct{})}
	}
	mine := calls.next
	g.mu.Unlock()
	defer g.leave(key, calls)
	select {
	case <-mine.done:
		return mine.value, mine.err
	case <-calls.turn:
	case <-ctx.Done():
		return value, ctx.Err()
	}
	defer func() { calls.turn <- struct{}{} }()
	select {
	case <-mine.done:
		return mine.value, mine.err
	default:
	}
	g.mu.Lock()
	if calls.next == mine {
		calls.next = nil // who comes from now on comes too late for this call
	}
	g.mu.Unlock()
	value, err = call(ctx)
	if err == nil || ctx.Err() == nil { // else another who waits for it makes it
		mine.value, mine.err = value, err
		close(mine.done)
	}
	return value, err
}

func (g *Shared[T]) leave(key string, calls *sharedCalls[T]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if calls.users--; calls.users == 0 {
		delete(g.byKey, key)
	}
}
