package zkstore

import (
	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driverkit"
)

// A WatchKey is what a watch is on.
type WatchKey struct {
	Path string
	Kind WatchKind
}

// A WatchKind says which changes of a node fire a watch.
type WatchKind uint8

// The kinds of watches.
const (
	OnData     WatchKind = iota // its data, and its deletion
	OnChildren                  // children that come or go, and its deletion
	OnCreate                    // its creation, where it does not exist
)

// A Watch is set in ZooKeeper once for all callers of this process, since it cannot be
// taken back: it stays until the node changes. Events arrive by the library's callback;
// the channels that the library makes are not used.
type Watch struct {
	Key    WatchKey
	Exists bool // OnCreate only: the node existed already
	Data   []byte
	Stat   *zk.Stat

	established chan struct{} // closed when the read that sets the watch has returned
	err         error         // of that read; written before established is closed
	fired       chan struct{} // closed when it fires; nil: never
	cause       zk.EventType  // written before fired is closed

	waiters map[chan<- struct{}]struct{} // told when it fires; guarded by Conn.mu
}

// Fired returns a channel that is closed when the watch fires.
func (w *Watch) Fired() <-chan struct{} { return w.fired }

// HasFired reports whether the watch has fired.
func (w *Watch) HasFired() bool {
	select {
	case <-w.fired:
		return true
	default:
		return false
	}
}

// Cause is the event that fired the watch. It is 0 before, and where the TCP connection was
// replaced or the session ended.
func (w *Watch) Cause() zk.EventType {
	if !w.HasFired() {
		return 0
	}
	return w.cause
}

func (w *Watch) fire(cause zk.EventType) {
	w.cause = cause
	close(w.fired)
	for ch := range w.waiters {
		driverkit.Signal(ch)
	}
	w.waiters = nil
}

// A watchSet is the watches of a connection.
type watchSet struct {
	byKey map[WatchKey]*Watch

	// inLibrary counts the watches that the library has, or may have: it sets them again on
	// the next TCP connection.
	inLibrary map[WatchKey]int
}

func newWatchSet() watchSet {
	return watchSet{byKey: map[WatchKey]*Watch{}, inLibrary: map[WatchKey]int{}}
}

// get returns the watch on key, and whether it was made by this call.
func (s *watchSet) get(key WatchKey) (w *Watch, isNew bool) {
	if w := s.byKey[key]; w != nil {
		return w, false
	}
	w = &Watch{Key: key, established: make(chan struct{}), fired: make(chan struct{})}
	s.byKey[key] = w
	return w, true
}

// drop removes a watch that could not be set.
func (s *watchSet) drop(w *Watch) {
	if s.byKey[w.Key] == w {
		delete(s.byKey, w.Key)
	}
}

// count notes that the library has n watches more on key.
func (s *watchSet) count(key WatchKey, n int) {
	if s.inLibrary[key] += n; s.inLibrary[key] <= 0 {
		delete(s.inLibrary, key)
	}
}

// event fires the watches that an event about a node concerns.
func (s *watchSet) event(ev zk.Event) {
	for _, kind := range [...]WatchKind{OnData, OnChildren, OnCreate} {
		concerned := true // a deletion ends every watch on the node
		switch ev.Type {
		case zk.EventNodeDataChanged, zk.EventNodeCreated:
			concerned = kind != OnChildren
		case zk.EventNodeChildrenChanged:
			concerned = kind == OnChildren
		}
		if !concerned {
			continue
		}
		key := WatchKey{ev.Path, kind}
		delete(s.inLibrary, key)
		if w := s.byKey[key]; w != nil {
			delete(s.byKey, key)
			w.fire(ev.Type)
		}
	}
}

// fireAll fires every watch: none may be set any more in ZooKeeper.
func (s *watchSet) fireAll() {
	for key, w := range s.byKey {
		delete(s.byKey, key)
		w.fire(0)
	}
}
