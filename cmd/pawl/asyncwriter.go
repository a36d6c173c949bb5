package main

import (
	"sync"
	"time"
)

// An asyncWriter runs writes in order without blocking the caller. The reader may
// have stopped reading, for example a pager at the end of its page or a terminal
// after Ctrl-S, and pawl must keep watching the lock meanwhile.
type asyncWriter struct {
	mu   sync.Mutex    // guards last
	last chan struct{} // closed when the last write is done; nil: nothing was written
}

// add runs write after all earlier writes.
func (w *asyncWriter) add(write func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, done := w.last, make(chan struct{})
	w.last = done
	go func() { // ended by wait
		defer close(done)
		if before != nil {
			<-before
		}
		write()
	}()
}

// wait blocks until everything is written.
func (w *asyncWriter) wait() {
	if last := w.lastWrite(); last != nil {
		<-last
	}
}

// waitAtMost blocks until everything is written, but no longer than d.
func (w *asyncWriter) waitAtMost(d time.Duration) {
	last := w.lastWrite()
	if last == nil {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-last:
	case <-timer.C:
	}
}

func (w *asyncWriter) lastWrite() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}
