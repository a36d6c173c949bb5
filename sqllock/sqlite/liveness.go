package sqlite

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A liveness is the folder beside the database in which every engine keeps one file
// locked while it lives. The kernel ends the lock with the process, however that ends, so
// a process that can lock the file knows that its owner is dead.
//
// A file is locked before any row has its id. A missing file proves nothing: its owner
// counts as alive until its claims expire.
type liveness struct {
	dir       string
	namespace string // the time namespace, with which every id begins
	id        string // this engine's own
	file      *os.File
	turns     *turnSocket // nil: other processes cannot tell this one

	created func() // a test's hook between create and lock; nil otherwise
}

// idForm is the form of our own file names. Other files in the folder are the user's, and
// are not locked or removed.
var idForm = regexp.MustCompile(`^[0-9a-z]*-[0-9a-f]{16}$`)

// joinLiveness makes and locks this engine's own file.
//
// Between create and lock another process may take the file for that of a dead one: it
// then has a shared lock on it, or has removed it. In the first case the lock fails, in
// the second the path does not lead to the file afterwards; either way another id is
// used, which no row has yet.
func joinLiveness(dir, namespace string, tell bool, created func()) (*liveness, error) {
	l := &liveness{dir: dir, namespace: namespace, created: created}
	for range 100 {
		if err := os.Mkdir(dir, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		file, id, err := l.create(tell)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the last process to leave has removed the folder
		}
		if err != nil {
			return nil, err
		}
		if file != nil {
			l.file, l.id = file, id
			return l, nil
		}
	}
	return nil, fmt.Errorf("sqlite: no liveness file in %s could be locked", dir)
}

func (l *liveness) create(tell bool) (_ *os.File, _ string, err error) {
	var b [8]byte
	rand.Read(b[:])
	id := l.namespace + "-" + hex.EncodeToString(b[:])
	path := filepath.Join(l.dir, id)
	if tell { // before the file: who finds that without a socket takes us for an earlier version
		l.turns = makeTurnSocket(l.dir, id)
	}
	locked := false
	defer func() {
		if !locked {
			l.turns.close()
			l.turns = nil
		}
	}()
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, "", err
	}
	if l.created != nil {
		l.created()
	}
	if locked, err = lockFile(file, exclusive); err != nil {
		locked = false
		_ = closeFile(file)
		os.Remove(path)
		return nil, "", fmt.Errorf("sqlite: lock %s: %w", path, err)
	}
	ours, _ := file.Stat()
	there, err := os.Stat(path)
	if locked = locked && err == nil && os.SameFile(ours, there); !locked {
		_ = closeFile(file)
		os.Remove(path)
		return nil, "", nil
	}
	return file, id, nil
}

// ownerState is what is known of the owner of an id.
type ownerState int

const (
	unknown ownerState = iota // there is a file that cannot be opened or locked
	missing                   // there is no file
	alive                     // the file is locked, on this kernel and now
	dead
)

// ProveDead reports whether the owner of an id is dead. Its rows are deleted before done
// is called.
func (l *liveness) ProveDead(owner string) (done func(reaped bool), isDead bool) {
	done, st := l.lock(owner)
	return done, st == dead
}

// state returns the state of the owner of an id.
func (l *liveness) state(owner string) ownerState {
	done, st := l.lock(owner)
	if done != nil {
		done(false)
	}
	return st
}

// lock returns the state of the owner of an id. If it is dead, the shared lock that
// proves it is kept until done is called, so that no process starts under the id
// meanwhile; done is nil otherwise.
func (l *liveness) lock(owner string) (done func(reaped bool), st ownerState) {
	if owner == l.id && l.file != nil {
		return nil, alive
	}
	if !idForm.MatchString(owner) {
		return nil, missing
	}
	path := filepath.Join(l.dir, owner)
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, missing
	}
	if err != nil {
		return nil, unknown
	}
	if locked, err := lockFile(file, shared); err != nil || !locked {
		_ = closeFile(file)
		if err != nil {
			return nil, unknown
		}
		return nil, alive
	}
	return func(reaped bool) {
		if reaped {
			os.Remove(path)
			os.Remove(path + turnSuffix)
		}
		_ = closeFile(file)
	}, dead
}

// others returns the ids of all other files.
func (l *liveness) others() ([]string, error) {
	files, err := os.ReadDir(l.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var ids []string
	for _, f := range files {
		if f.Name() != l.id && f.Type().IsRegular() && idForm.MatchString(f.Name()) {
			ids = append(ids, f.Name())
		}
	}
	return ids, nil
}

// removeSockets removes the sockets, or pipes, of processes whose liveness files are gone:
// a program of an earlier version that reaps a process does not know them. A process makes
// its socket just before its liveness file.
func (l *liveness) removeSockets() {
	files, _ := os.ReadDir(l.dir)
	for _, f := range files {
		id, isTurn := strings.CutSuffix(f.Name(), turnSuffix)
		if !isTurn || !idForm.MatchString(id) {
			continue
		}
		info, err := f.Info()
		if err != nil || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		if _, err := os.Lstat(filepath.Join(l.dir, id)); errors.Is(err, fs.ErrNotExist) {
			os.Remove(filepath.Join(l.dir, f.Name()))
		}
	}
}

// allTell reports whether every live process that has the file open tells this one of
// its turns: it has a socket of the same user, and this one's is still at its place. Those
// of earlier versions, which have a pipe or nothing, and of other users do not tell.
func (l *liveness) allTell() bool {
	us, err := sendTurn(l.dir, l.id)
	if err != nil {
		return false
	}
	ids, err := l.others()
	return err == nil && !slices.ContainsFunc(ids, func(id string) bool {
		user, err := sendTurn(l.dir, id)
		return (err != nil || user != us) && l.state(id) != dead
	})
}

// tell tells processes that claims of theirs were granted or have ended, and those whose
// claims are the first that wait now.
func (l *liveness) tell(turns, firsts []string) {
	for _, id := range turns {
		l.tellOne(id, turnCame)
	}
	for _, id := range firsts {
		l.tellOne(id, turnFirst)
	}
}

func (l *liveness) tellOne(id string, what byte) {
	if idForm.MatchString(id) {
		_, _ = sendTurn(l.dir, id, what) // who is not told looks by itself
	}
}

// inOtherNamespace reports whether an id is of another time namespace.
func (l *liveness) inOtherNamespace(id string) bool {
	return !strings.HasPrefix(id, l.namespace+"-")
}

// leave closes the file and removes it. If rows still have its id the file stays, without
// its lock: a process that meets those rows then knows that their owner is dead. A child
// that inherited the descriptor keeps the lock.
func (l *liveness) leave(hasRows bool) error {
	if l == nil {
		return nil
	}
	l.turns.close()
	err := closeFile(l.file) // first: some systems do not remove open files
	if !hasRows {
		os.Remove(filepath.Join(l.dir, l.id))
		os.Remove(l.dir) // succeeds only when it is empty
	}
	return err
}
