package etcdstore

import (
	"sync"
	"time"
)

// A silenceTimer calls a function once when nothing has happened for some time.
type silenceTimer struct {
	mu      sync.Mutex // guards what follows
	timer   *time.Timer
	fired   bool
	stopped bool
}

// startSilenceTimer checks after each limit whether silent holds, and calls fire then.
func startSilenceTimer(limit time.Duration, silent func() bool, fire func()) *silenceTimer {
	s := &silenceTimer{}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(limit, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case s.stopped:
		case silent():
			s.fired = true
			fire()
		default:
			s.timer.Reset(limit)
		}
	})
	return s
}

// stop ends the timer, and reports whether it has fired.
func (s *silenceTimer) stop() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	s.timer.Stop()
	return s.fired
}
