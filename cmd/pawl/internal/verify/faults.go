package verify

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pawl-go/pawl/internal/faultdial"
	"github.com/pawl-go/pawl/internal/history"
)

// The faults that can be brought to a worker.
const (
	pause       = history.Pause // stopped for longer than the TTL
	kill        = history.Kill  // -9
	cut         = "cut"         // nothing goes to the store, and nothing comes from it
	cutRequests = "cut-requests"
	cutReplies  = "cut-replies"
	delay       = "delay"
	swallow     = "swallow" // the next request arrives, and its reply does not
	reset       = "reset"   // every connection is reset
)

// Faults are the names of all faults.
func Faults() []string {
	return []string{pause, kill, cut, cutRequests, cutReplies, delay, swallow, reset}
}

// FaultsOf returns the faults that a store of this kind can have: one in a file has no link.
func FaultsOf(store string) []string {
	all := Faults()
	if !canPause {
		all = slices.DeleteFunc(all, func(f string) bool { return f == pause })
	}
	if store == "sqlite" {
		all = slices.DeleteFunc(all, func(f string) bool { return f != pause && f != kill })
	}
	return all
}

// lasting reports whether a fault goes on until it is healed.
func lasting(fault string) bool { return fault != swallow && fault != reset && fault != kill }

// howLong draws how long a fault lasts: often beyond the TTL, so that leases are lost, and
// often not, so that they survive.
func howLong(fault string, ttl time.Duration, r *rand.Rand) time.Duration {
	part := func(least, most float64) time.Duration {
		return time.Duration(float64(ttl) * (least + r.Float64()*(most-least)))
	}
	switch {
	case !lasting(fault):
		return 0
	case fault == pause:
		return part(1.1, 1.8)
	case fault == delay:
		return part(0.5, 1.5)
	case r.IntN(3) == 0:
		return part(0.05, 0.8)
	}
	return part(1, 2)
}

// bringAbout changes a worker's link.
func bringAbout(l *faultdial.Link, fault string, by time.Duration) {
	switch fault {
	case cut:
		l.Cut(faultdial.Both)
	case cutRequests:
		l.Cut(faultdial.Requests)
	case cutReplies:
		l.Cut(faultdial.Replies)
	case delay:
		l.Delay(by)
	case swallow:
		l.SwallowReply()
	case reset:
		l.Reset()
	}
}
