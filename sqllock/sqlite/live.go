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
	"strings"
)

// A census is the folder beside the database in which every engine keeps one
// file locked for as long as it lives. The lock goes with the process, however
// that ends, so whoever can lock the file knows that its owner is dead.
//
// A file is locked before any row names it. A file that is not there says
// nothing: its owner counts as alive until its claims expire.
type census struct {
	dir   string
	space string // the time namespace, at the head of every id
	id    string // this engine's own
	file  *os.File

	created func() // a test stands here between create and lock; nil otherwise
}

// idForm is what our own files are called. Others in the folder are the user's,
// and not to be locked or removed.
var idForm = regexp.MustCompile(`^[0-9a-z]*-[0-9a-f]{16}$`)

// joinCensus makes and locks this engine's own file.
//
// Between create and lock somebody who looks around may take the file for a
// dead one's: it then holds a shared lock, or has removed the file. The first
// makes the lock fail, the second shows when the name is looked up again
// afterwards; either way another id is taken, which no row has named yet.
func joinCensus(dir, space string, created func()) (*census, error) {
	c := &census{dir: dir, space: space, created: created}
	for range 100 {
		if err := os.Mkdir(dir, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		file, id, err := c.create()
		if errors.Is(err, fs.ErrNotExist) {
			continue // the last to leave has taken the folder along
		}
		if err != nil {
			return nil, err
		}
		if file != nil {
			c.file, c.id = file, id
			return c, nil
		}
	}
	return nil, fmt.Errorf("sqlite: no liveness file in %s could be locked", dir)
}

func (c *census) create() (*os.File, string, error) {
	var b [8]byte
	rand.Read(b[:])
	id := c.space + "-" + hex.EncodeToString(b[:])
	path := filepath.Join(c.dir, id)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, "", err
	}
	if c.created != nil {
		c.created()
	}
	locked, err := lockFile(file, exclusive)
	if err != nil {
		_ = closeFile(file)
		os.Remove(path)
		return nil, "", fmt.Errorf("sqlite: lock %s: %w", path, err)
	}
	mine, _ := file.Stat()
	there, err := os.Stat(path)
	if !locked || err != nil || !os.SameFile(mine, there) {
		_ = closeFile(file)
		os.Remove(path)
		return nil, "", nil
	}
	return file, id, nil
}

// What a census knows of the owner of an id.
type life int

const (
	unknown life = iota // there is a file that cannot be opened or locked
	missing             // there is no file
	alive               // the file is locked, on this kernel and now
	dead
)

// look reports how it stands with the owner of an id. If it is dead, the shared
// lock that proves it is kept until done, so that nobody comes to life under the
// id meanwhile; done is nil otherwise.
func (c *census) look(live string) (done func(buried bool), l life) {
	if live == c.id && c.file != nil {
		return nil, alive
	}
	if !idForm.MatchString(live) {
		return nil, missing
	}
	path := filepath.Join(c.dir, live)
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
	return func(buried bool) {
		if buried {
			os.Remove(path)
		}
		_ = closeFile(file)
	}, dead
}

// life is look without a lock that is kept.
func (c *census) life(live string) life {
	done, l := c.look(live)
	if done != nil {
		done(false)
	}
	return l
}

// Examine reports whether the owner of an id is dead: its rows are ended before
// done is called.
func (c *census) Examine(live string) (done func(buried bool), isDead bool) {
	done, l := c.look(live)
	return done, l == dead
}

// others returns the ids of all other files.
func (c *census) others() ([]string, error) {
	files, err := os.ReadDir(c.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var ids []string
	for _, f := range files {
		if f.Name() != c.id && f.Type().IsRegular() && idForm.MatchString(f.Name()) {
			ids = append(ids, f.Name())
		}
	}
	return ids, nil
}

// stranger reports whether an id is of another time namespace.
func (c *census) stranger(id string) bool { return !strings.HasPrefix(id, c.space+"-") }

// leave lets go of the file and removes it. A file that rows still name stays,
// without its lock: whoever meets those rows then knows that they are dead. A
// child that inherited the descriptor keeps the lock.
func (c *census) leave(named bool) error {
	if c == nil {
		return nil
	}
	err := closeFile(c.file) // first: some systems do not remove open files
	if !named {
		os.Remove(filepath.Join(c.dir, c.id))
		os.Remove(c.dir) // succeeds only when it is empty
	}
	return err
}
