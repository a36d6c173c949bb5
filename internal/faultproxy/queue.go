package faultproxy

import (
	"context"
	"sync"
	"time"
)

// maxQueued is how many bytes a pipe buffers before it stops reading, so that a
// sender into a black hole blocks eventually, as with a full TCP window.
const maxQueued = 4 << 20

type kind uint8

const (
	chunk  kind = iota + 1
	finish      // the sender has closed its side
	abort       // the connection was reset
)

// An item is one element in the queue of a pipe.
type item struct {
	kind kind
	data []byte
	at   time.Time // of arrival, set by push
}

// A queue holds the items between a pipe's reader and writer.
type queue struct {
	filled  chan struct{} // capacity 1: an item may be available; never closed
	emptied chan struct{} // capacity 1: space may be available; never closed

	mu    sync.Mutex // guards everything below
	items []item
	bytes int
}

func newQueue() *queue {
	return &queue{filled: make(chan struct{}, 1), emptied: make(chan struct{}, 1)}
}

// push adds an item. It never blocks.
func (q *queue) push(it item) {
	it.at = time.Now()
	q.mu.Lock()
	q.items = append(q.items, it)
	q.bytes += len(it.data)
	q.mu.Unlock()
	signal(q.filled)
}

// pop waits for the first item. It returns false if ctx has ended.
func (q *queue) pop(ctx context.Context) (item, bool) {
	for {
		q.mu.Lock()
		if len(q.items) > 0 {
			it := q.items[0]
			q.items[0] = item{} // so that its bytes can be collected
			q.items = q.items[1:]
			q.bytes -= len(it.data)
			q.mu.Unlock()
			signal(q.emptied)
			return it, true
		}
		q.mu.Unlock()
		select {
		case <-q.filled:
		case <-ctx.Done():
			return item{}, false
		}
	}
}

// room waits until the queue is not full. It returns false if ctx has ended.
func (q *queue) room(ctx context.Context) bool {
	for {
		q.mu.Lock()
		full := q.bytes >= maxQueued
		q.mu.Unlock()
		if !full {
			return ctx.Err() == nil
		}
		select {
		case <-q.emptied:
		case <-ctx.Done():
			return false
		}
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // one pending signal is enough: the receiver checks the whole state
	}
}
