// Command pawl runs a program under a lock, and shows who holds which.
//
// It does not make a program safe that ignores its end: when the lock is lost the
// program and its descendants are stopped before anybody else can hold it, by
// SIGTERM and then SIGKILL, but what they wrote before that stays written.
package main

import "os"

func main() {
	if isGuardian(os.Args) {
		os.Exit(guardianMain(os.Args))
	}
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
