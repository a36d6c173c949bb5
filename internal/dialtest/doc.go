// Package dialtest has only tests: that the dialer in the context of pawl.Open makes every
// connection to every store, and that locks outlive the faults that it makes. They compare
// the sockets of their process, so nothing else may run in it.
package dialtest
