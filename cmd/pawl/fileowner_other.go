//go:build !unix

package main

import "io/fs"

// hasFileModes is false: files have no Unix modes, and the user's profile folder is
// private anyway.
const hasFileModes = false

func ownerOf(fs.FileInfo) (uid int, ok bool) { return 0, false }

func protectsEntries(string) bool { return false }
