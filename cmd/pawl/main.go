// Command pawl runs a program under a lock, and shows who holds which lock.
//
// It does not make a program safe that ignores the loss of its lock: the program
// and its descendants are stopped with SIGTERM and then SIGKILL before anyone else
// can hold the lock, but their earlier writes stay.
package main

import "os"

func main() {
	if isGuardian(os.Args) {
		os.Exit(guardianMain(os.Args))
	}
	if isVerifyWorker(os.Args) {
		os.Exit(verifyWorkerMain())
	}
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
