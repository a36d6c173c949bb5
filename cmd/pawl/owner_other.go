//go:build !unix

package main

import "io/fs"

// modes: files have no modes here; the profile's folder is the user's by itself.
const modes = false

func ownerOf(fs.FileInfo) (uid int, ok bool) { return 0, false }

func keeps(string) bool { return false }
