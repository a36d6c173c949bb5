package redisdoctor

import (
	"context"
	"fmt"

	"github.com/pawl-go/pawl/doctor"
)

// nearlyFull is the share of maxmemory, in percent, above which there is little room
// left: a burst of other data fills the rest in a moment.
const nearlyFull = 90

// eviction says whether the server may evict keys of locks.
func eviction(_ context.Context, s *server) doctor.Finding {
	const check, mend = "eviction policy", "CONFIG SET maxmemory-policy noeviction"
	policy := s.info["maxmemory_policy"]
	found := "maxmemory-policy is " + policy
	switch {
	case policy == "":
		return doctor.Warn(check, "the server does not tell its maxmemory-policy", "A server that evicts keys may evict locks.", mend)
	case policy == "noeviction":
		return doctor.Good(check, found)
	case s.number("maxmemory") == 0:
		return doctor.Good(check, found+", without maxmemory: nothing is evicted")
	case s.Options.EvictionAllowed:
		return doctor.Warn(check, found+", and the URL accepts that", "The server may evict a lock that is held; its holder learns it only at its next beat.", mend)
	}
	return doctor.Break(check, found, "The server may evict locks, so pawl refuses to take any.", mend)
}

// memoryLeft says how much of maxmemory is used.
func memoryLeft(_ context.Context, s *server) doctor.Finding {
	const check = "memory left"
	used, limit := s.number("used_memory"), s.number("maxmemory")
	if s.info["maxmemory"] == "" { // what eviction says of such a server is enough
		return doctor.Finding{}
	}
	if limit == 0 {
		return doctor.Good(check, "no maxmemory")
	}
	found := fmt.Sprintf("%s of maxmemory %s are used (%d %%)", size(used), size(limit), used*100/limit)
	mend := fmt.Sprintf("CONFIG SET maxmemory %d", used*2)
	switch {
	case used >= limit:
		return doctor.Break(check, found, "The server refuses new locks until keys are deleted.", mend)
	case used*100 >= limit*nearlyFull:
		return doctor.Warn(check, found, "When it is full, the server refuses new locks; those that are held are renewed.", mend)
	}
	return doctor.Good(check, found)
}

// size returns a number of bytes for a person.
func size(n int64) string {
	for _, unit := range []struct {
		name  string
		bytes int64
	}{{"GB", 1 << 30}, {"MB", 1 << 20}, {"kB", 1 << 10}} {
		if n >= unit.bytes {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(unit.bytes), unit.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}
