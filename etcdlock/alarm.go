package etcdlock

import (
	"sync"
	"time"
)

// An alarm rings when something has been still for too long.
type alarm struct {
	mu    sync.Mutex // guards what follows
	timer *time.Timer
	rung  bool
	over  bool
}

// set has the alarm look after each limit whether all is still, and ring then, once.
func (a *alarm) set(limit time.Duration, still func() bool, ring func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.timer = time.AfterFunc(limit, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		switch {
		case a.over:
		case still():
			a.rung = true
			ring()
		default:
			a.timer.Reset(limit)
		}
	})
}

// off ends the alarm, and reports whether it has rung.
func (a *alarm) off() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	a.timer.Stop()
	return a.rung
}
