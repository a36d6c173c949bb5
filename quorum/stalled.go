package quorum

import (
	"maps"
	"sync"
	"time"
)

// stalledLines are the lines of nodes that did not move while the name was free.
type stalledLines struct {
	mu    sync.Mutex // guards what follows
	until map[stalledLine]time.Time
}

type stalledLine struct {
	name string
	node int
}

// add says that a node's line is not to be used until then.
func (l *stalledLines) add(name string, node int, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.until == nil {
		l.until = map[stalledLine]time.Time{}
	}
	now := time.Now()
	maps.DeleteFunc(l.until, func(_ stalledLine, until time.Time) bool { return !now.Before(until) })
	l.until[stalledLine{name, node}] = until
}

// is reports whether a node's line is not to be used now.
func (l *stalledLines) is(name string, node int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.until[stalledLine{name, node}])
}
