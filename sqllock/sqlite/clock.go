package sqlite

import "time"

// A clock decides when claims expire. All processes that share a file must read the same
// one, so it is identified by the boot it counts from and by the time namespace that
// shifts it.
type clock struct {
	now             func() int64 // microseconds, for expiry; above 0 and never going back within one boot and namespace
	wall            func() int64 // microseconds since 1970, for tokens and records
	boot, namespace string
}

func wallMicros() int64 { return time.Now().UnixMicro() }
