package sqlitefile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Check returns the absolute path without symbolic links, if locks can be trusted there.
func Check(path string, network bool) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	path = Resolve(path) // so that two names of one file have one folder of liveness files
	if IsHardLinked(path) {
		return "", errors.New("the file has several names (hard links), and SQLite would keep a log for each: remove the others")
	}
	if IsMountPoint(path) {
		return "", errors.New("the file is mounted alone, as into a container, and would have a log and locks of its own there: mount the folder that it is in")
	}
	if network {
		return path, nil
	}
	kind, err := NetworkKind(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	if kind != "" {
		return "", &NetworkError{Path: path, Kind: kind}
	}
	return path, nil
}

// Resolve follows symbolic links, also those whose target does not exist yet.
func Resolve(path string) string {
	for range 40 { // as many as Linux follows
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return real
		}
		if real, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
			path = filepath.Join(real, filepath.Base(path))
		}
		to, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	return path
}

// A NetworkError refuses a file on a network file system, which does not implement
// file locks and shared memory as SQLite needs them: files on one have been corrupted
// within minutes.
type NetworkError struct{ Path, Kind string }

// Error returns the text.
func (e *NetworkError) Error() string {
	return fmt.Sprintf("sqlite: %s is on %s, where file locks between machines cannot be trusted: "+
		"use a local disk, or a server (redis, etcd, postgres) for locks between machines", e.Path, e.Kind)
}
