//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package sqlite

import (
	"os"
	"sync"

	"github.com/gofrs/flock"
)

type lockKind int

const (
	shared lockKind = iota
	exclusive
)

var (
	locksMu sync.Mutex // guards locks
	locks   = map[*os.File]*flock.Flock{}
)

// lockFile tries to lock the file behind f by its name, with a handle of its own that
// closeFile closes. A child that inherits f may not keep the lock on this system.
func lockFile(f *os.File, kind lockKind) (bool, error) {
	l := flock.New(f.Name())
	try := l.TryLock
	if kind == shared {
		try = l.TryRLock
	}
	if ok, err := try(); err != nil || !ok {
		l.Close()
		return false, err
	}
	locksMu.Lock()
	defer locksMu.Unlock()
	locks[f] = l
	return true, nil
}

// closeFile closes f and ends its lock.
func closeFile(f *os.File) error {
	locksMu.Lock()
	defer locksMu.Unlock()
	if l := locks[f]; l != nil {
		l.Close()
		delete(locks, f)
	}
	return f.Close()
}
