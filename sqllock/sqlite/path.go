package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// checkPath returns the absolute path, if locks can be trusted there.
func checkPath(path string, network bool) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	path = resolve(path) // so that two names of one file have one folder of liveness files
	if isHardLinked(path) {
		return "", errors.New("the file has several names (hard links), and SQLite would keep a log for each: remove the others")
	}
	if isMountPoint(path) {
		return "", errors.New("the file is mounted alone, as into a container, and would have a log and locks of its own there: mount the folder that it is in")
	}
	if network {
		return path, nil
	}
	kind, err := networkKind(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	if kind != "" {
		return "", &networkError{path: path, kind: kind}
	}
	return path, nil
}

// resolve follows symbolic links, also those whose target does not exist yet.
func resolve(path string) string {
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

// A network file system does not implement file locks and shared memory as SQLite needs
// them: files on one have been corrupted within minutes.
type networkError struct{ path, kind string }

func (e *networkError) Error() string {
	return fmt.Sprintf("sqlite: %s is on %s, where file locks between machines cannot be trusted: "+
		"use a local disk, or a server (redis, etcd, postgres) for locks between machines", e.path, e.kind)
}
