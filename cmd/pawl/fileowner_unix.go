//go:build unix

package main

import (
	"io/fs"
	"os"
	"syscall"
)

// hasFileModes is true: file modes can exclude other users.
const hasFileModes = true

// ownerOf returns the owner of a file.
func ownerOf(info fs.FileInfo) (uid int, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}

// protectsEntries reports whether pawl may create a folder in dir that other users
// cannot move or replace: dir belongs to root or to this user, and is sticky or not
// writable for others.
func protectsEntries(dir string) bool {
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() {
		return false
	}
	uid, ok := ownerOf(info)
	closed := info.Mode()&fs.ModeSticky != 0 || info.Mode().Perm()&0o022 == 0
	return ok && (uid == 0 || uid == os.Geteuid()) && closed && syscall.Access(dir, mayWrite|mayEnter) == nil
}

// The modes of access(2).
const (
	mayEnter = 1
	mayWrite = 2
)
