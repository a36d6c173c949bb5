//go:build unix

package main

import (
	"io/fs"
	"syscall"
)

// modes: files have modes here that keep others out.
const modes = true

// ownerOf is the user to whom a file belongs.
func ownerOf(info fs.FileInfo) (uid int, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}
