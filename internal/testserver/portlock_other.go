//go:build !unix

package testserver

func lockPort(int) bool { return true }

func unlockPort(int) {}
