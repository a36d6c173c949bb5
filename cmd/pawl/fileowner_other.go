//go:build !unix

package main

import "io/fs"

// hasFileModes: files have no modes here; the profile's folder is the user's by itself.
const hasFileModes = false

func ownerOf(fs.FileInfo) (uid int, ok bool) { return 0, false }

func protectsEntries(string) bool { return false }
