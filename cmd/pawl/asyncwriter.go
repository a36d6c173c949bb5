package main

import (
	"sync"
	"time"
)

// A clerk writes what is given to it, in order, and whoever gave it goes on: a
// reader may have stopped reading, as a pager does at the end of its page and a
// terminal after Ctrl-S, and the lock must be watched all the same.
type asyncWriter struct {
	mu   sync.Mutex    // guards last
	last chan struct{} // closed when everything was written; nil: there was nothing
}

// add has write called when everything before it was written.
func (w *asyncWriter) add(write func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, done := w.last, make(chan struct{})
	w.last = done
	go func() { // wait waits for it
		defer close(done)
		if before != nil {
			<-before
		}
		write()
	}()
}

// wait returns when everything was written.
func (w *asyncWriter) wait() {
	if last := w.lastWrite(); last != nil {
		<-last
	}
}

// within waits until everything was written, but no longer than d.
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
