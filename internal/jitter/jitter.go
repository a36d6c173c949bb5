// Package jitter has the random numbers of delays, so that a simulation can replace them
// by numbers that it can repeat. Secrets and identities are not made of them.
package jitter

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

var source atomic.Pointer[func(n uint64) uint64]

// N returns a random time of at least 0 and less than d, which is more than 0.
func N(d time.Duration) time.Duration { return time.Duration(Uint64N(uint64(d))) }

// Uint64N returns a random number below n, which is more than 0.
func Uint64N(n uint64) uint64 {
	if f := source.Load(); f != nil {
		return (*f)(n)
	}
	return rand.Uint64N(n)
}

// Replace has f return the numbers, for the whole process, until restore is called.
func Replace(f func(n uint64) uint64) (restore func()) {
	before := source.Swap(&f)
	return func() { source.Store(before) }
}
