package zklock

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// A watchKey is what a watch is on.
type watchKey struct {
	path string
	kind watchKind
}

type watchKind uint8

const (
	onNode     watchKind = iota // its data and its end
	onChildren                  // their coming and going
	onBirth                     // a node that is not there yet
)

// A watch is set in ZooKeeper once for all of this process who want it, since it
// cannot be taken back: it stays until the node changes. Events come by the
// library's callback; the channels it makes are left alone.
type watch struct {
	key   watchKey
	armed chan struct{} // closed when the read that sets it has come back
	fired chan struct{} // closed when there is something to look at

	// written before armed is closed
	err      error
	there    bool // of a watch on a birth: it has been
	data     []byte
	children []string
	stat     *zk.Stat

	// guarded by link.mu
	why   zk.EventType                 // why it fired; 0: the connection was made anew, or the life ended
	turns map[chan<- struct{}]struct{} // told when it fires
}

// over reports whether the watch has fired.
func (w *watch) over() bool {
	select {
	case <-w.fired:
		return true
	default:
		return false
	}
}

// watch returns a watch, or the error of the read that sets it. It is
// known before the read is sent: the event may come before the answer has been
// taken in.
func (l *link) watch(ctx context.Context, f *life, key watchKey) (*watch, error) {
	for {
		w, mine := l.watchOf(key)
		if mine {
			if err := l.arm(ctx, f, key, w); err != nil {
				l.forget(key, w, err)
			}
		}
		if w, err := l.settled(ctx, f, w, mine); w != nil || err != nil {
			return w, err
		}
	}
}

// settled waits until a watch is set. It returns nil for another's attempt that has
// failed or is over: it tells nothing of ours.
func (l *link) settled(ctx context.Context, f *life, w *watch, mine bool) (*watch, error) {
	select {
	case <-w.armed:
	case <-ctx.Done():
		return nil, unanswered(ctx)
	}
	switch {
	case mine && w.err != nil:
		return nil, w.err
	case w.err != nil, !mine && w.over():
		return nil, nil
	}
	return w, nil
}

func (l *link) watchOf(key watchKey) (w *watch, mine bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.watches[key]; w != nil {
		return w, false
	}
	w = &watch{key: key, armed: make(chan struct{}), fired: make(chan struct{}), turns: map[chan<- struct{}]struct{}{}}
	l.watches[key] = w
	return w, true
}

// arm starts the read that sets the watch.
func (l *link) arm(ctx context.Context, f *life, key watchKey, w *watch) error {
	if err := l.ready(ctx, f); err != nil {
		return err
	}
	l.keep(key, 1)
	read := func(c *zk.Conn) (err error) {
		switch key.kind {
		case onNode:
			w.data, w.stat, _, err = c.GetW(key.path)
		case onChildren:
			w.children, w.stat, _, err = c.ChildrenW(key.path)
		case onBirth:
			w.there, w.stat, _, err = c.ExistsW(key.path)
		}
		return err
	}
	started := l.start(f, "", read, func(err error) {
		if err != nil {
			l.keep(key, -1)
			l.forget(key, w, err)
			return
		}
		close(w.armed)
	})
	if !started {
		l.keep(key, -1)
		return driver.ErrGone
	}
	return nil
}

// keep notes that the library has a watch more or less for us.
func (l *link) keep(key watchKey, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept[key] += n; l.kept[key] <= 0 {
		delete(l.kept, key)
	}
}

// forget gives up a watch that could not be set.
func (l *link) forget(key watchKey, w *watch, err error) {
	l.mu.Lock()
	if l.watches[key] == w {
		delete(l.watches, key)
	}
	l.mu.Unlock()
	w.err = err
	close(w.armed)
}

// firedLocked takes in an event about a node.
func (l *link) firedLocked(ev zk.Event) {
	for _, kind := range [...]watchKind{onNode, onChildren, onBirth} {
		concerns := true // the end of a node ends every watch on it
		switch ev.Type {
		case zk.EventNodeDataChanged, zk.EventNodeCreated:
			concerns = kind != onChildren
		case zk.EventNodeChildrenChanged:
			concerns = kind == onChildren
		}
		key := watchKey{ev.Path, kind}
		if concerns {
			delete(l.kept, key)
		}
		if w := l.watches[key]; w != nil && concerns {
			delete(l.watches, key)
			w.fireLocked(ev.Type)
		}
	}
}

// fireLocked has everybody look: what was set before may not be set any more.
func (l *link) fireLocked() {
	for key, w := range l.watches {
		delete(l.watches, key)
		w.fireLocked(0)
	}
}

func (w *watch) fireLocked(why zk.EventType) {
	w.why = why
	close(w.fired)
	for turn := range w.turns {
		select {
		case turn <- struct{}{}:
		default: // told already
		}
	}
	w.turns = nil
}

// tellLocked has turn told when w fires, or at once if it has.
func (w *watch) tellLocked(turn chan<- struct{}) {
	if w.turns == nil {
		select {
		case turn <- struct{}{}:
		default:
		}
		return
	}
	w.turns[turn] = struct{}{}
}

// untellLocked takes that back.
func (w *watch) untellLocked(turn chan<- struct{}) { delete(w.turns, turn) }
