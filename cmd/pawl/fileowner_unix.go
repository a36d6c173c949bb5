//go:build unix

package main

import (
	"io/fs"
	"os"
	"syscall"
)

// modes: files have modes here that keep others out.
const hasFileModes = true

// ownerOf is the user to whom a file belongs.
func ownerOf(info fs.FileInfo) (uid int, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}

// keeps reports whether we may make a folder in dir that nobody else can move: dir is
// root's or ours, and others who may write there may not touch what is not theirs.
func protectsEntries(dir string) bool {
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() {
		return false
	}
	uid, ok := ownerOf(info)
	closed := info.Mode()&fs.ModeSticky != 0 || info.Mode().Perm()&0o022 == 0
	return ok && (uid == 0 || uid == os.Geteuid()) && closed && syscall.Access(dir, mayWrite|mayEnter) == nil
}

// As access(2) has them.
const (
	mayEnter = 1
	mayWrite = 2
)
