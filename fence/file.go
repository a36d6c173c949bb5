package fence

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A File keeps the marks of a file, or of anything else on one machine that
// processes change, in a file beside it: path + ".fence". The marks are kept as long
// as that file is. Symbolic links to a file are that file; a hard link is another one.
type File struct{ path string }

// NewFile returns the fence of the file at path; nothing happens yet.
func NewFile(path string) *File { return &File{path} }

// Begin raises the mark to token, or returns ErrStale. It has reached the disk when
// Begin returns.
func (f *File) Begin(mode Mode, token uint64) error { return f.Do(mode, token, nil) }

// Check reports ErrStale if a later holder has begun. The answer may be out
// of date when it returns; an effect belongs into Do.
func (f *File) Check(mode Mode, token uint64) error {
	path, err := f.target()
	if err != nil {
		return err
	}
	marks, err := readMarks(path)
	if err == nil {
		_, err = marks.Admit(mode, token)
	}
	return err
}

// Do raises the mark and runs effect; no process begins meanwhile.
func (f *File) Do(mode Mode, token uint64, effect func() error) error {
	return f.do(mode, token, func(string) error {
		if effect == nil {
			return nil
		}
		return effect()
	})
}

// WriteFile replaces the file's content, whole or not at all, if no later holder
// has begun.
func (f *File) WriteFile(token uint64, data []byte, perm fs.FileMode) error {
	return f.do(Write, token, func(path string) error { return replace(path, data, perm) })
}

// do is Do with an effect that gets the path without links.
func (f *File) do(mode Mode, token uint64, effect func(path string) error) error {
	path, err := f.target()
	if err != nil {
		return err
	}
	unlock, err := lockFile(path + ".fence.lock")
	if err != nil {
		return err
	}
	defer unlock()
	marks, err := readMarks(path)
	if err != nil {
		return err
	}
	raised, err := marks.Admit(mode, token)
	if err != nil {
		return err
	}
	if raised != marks {
		// Written before the effect: a mark without an effect refuses the old holder
		// too early, an effect without a mark would let it in.
		text := fmt.Sprintf("%020d %020d\n", raised.Write, raised.Read)
		if err := replace(path+".fence", []byte(text), 0o600); err != nil {
			return err
		}
	}
	return effect(path)
}

// maxLinks is how many links to a file that is missing are followed.
const maxLinks = 40

// target returns the path of the file without links, so that all its names have one fence.
// The file may be missing, also behind a link.
func (f *File) target() (string, error) {
	path := f.path
	for range maxLinks {
		found, err := filepath.EvalSymlinks(path)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return found, err
		}
		dir, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return "", err
		}
		path = filepath.Join(dir, filepath.Base(path))
		link, err := os.Readlink(path)
		if err != nil {
			return path, nil
		}
		if path = link; !filepath.IsAbs(link) {
			path = filepath.Join(dir, link)
		}
	}
	return "", fmt.Errorf("fence: %s: too many symbolic links", f.path)
}

func readMarks(path string) (m Marks, err error) {
	b, err := os.ReadFile(path + ".fence")
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return m, err
	}
	if _, err := fmt.Sscanf(string(b), "%d %d\n", &m.Write, &m.Read); err != nil {
		return m, fmt.Errorf("fence: %s.fence holds something else: %w", path, err)
	}
	return m, nil
}

// replace puts a file in the place of another, so that a reader or a crash finds
// the old or the new one.
func replace(path string, data []byte, perm fs.FileMode) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp.Name())
		}
	}()
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Chmod(perm)
	}
	if err == nil {
		err = tmp.Sync()
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if err = os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	syncFolder(filepath.Dir(path))
	return nil
}

// syncFolder has the rename reach the disk, where a folder can be synced.
func syncFolder(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}
