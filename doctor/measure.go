package doctor

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const (
	// maxSkew is how far a store's clock may be from ours. Clocks that are kept in
	// step differ by milliseconds; one that is off by a second is not, and will be
	// stepped some day.
	maxSkew = time.Second

	// Servers of one region answer within a few milliseconds; above slowTrip the store
	// is far away or overloaded. A beat has a sixth of the TTL: above brokenTrip, one
	// of a lease of five seconds fails.
	slowTrip   = 100 * time.Millisecond
	brokenTrip = 800 * time.Millisecond

	samples = 7 // of a round trip: the median is right if three of them were disturbed
)

// RoundTrip measures how long ask takes, several times, and judges the median. ask
// makes one round trip to the store. mend is the line for a trip that is too long.
func RoundTrip(ctx context.Context, mend string, ask func(context.Context) error) Finding {
	const check = "round trip"
	var took []time.Duration
	for range samples {
		start := time.Now()
		if err := ask(ctx); err != nil {
			return Break(check, fmt.Sprintf("no answer: %v", err), "Locks cannot be taken or renewed while the store does not answer.", mend)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	median := took[len(took)/2]
	found := fmt.Sprintf("%v, the median of %d", Short(median), samples)
	switch {
	case median > brokenTrip:
		return Break(check, found, "Renewals of short leases do not arrive in time, and the leases are lost.", mend)
	case median > slowTrip:
		return Warn(check, found, "Each lock and each unlock takes at least that long.", mend)
	}
	return Good(check, found)
}

// Clock compares the store's clock with ours, several times, and judges the reading that
// took the least time. now asks the store for its time. meaning says what a wrong clock
// does to this store's locks, mend is the line that corrects it.
func Clock(ctx context.Context, meaning, mend string, now func(context.Context) (time.Time, error)) Finding {
	const check = "clock"
	var skew, took time.Duration
	for i := range samples {
		start := time.Now()
		theirs, err := now(ctx)
		trip := time.Since(start)
		if err != nil {
			return Warn(check, fmt.Sprintf("cannot read the store's clock: %v", err), meaning, mend)
		}
		if i == 0 || trip < took {
			// Round removes the monotonic reading, with which a stepped clock of ours would hide.
			skew, took = theirs.Sub(start.Round(0).Add(trip/2)), trip
		}
	}
	return judgeClock(check, skew, took, meaning, mend)
}

// judgeClock counts only as much of skew as the round trip cannot explain: the store may
// have read its clock at any moment of it.
func judgeClock(check string, skew, trip time.Duration, meaning, mend string) Finding {
	found := fmt.Sprintf("%v from ours, within %v", Short(skew.Abs()), Short(trip/2))
	switch sure := skew.Abs() - trip/2; {
	case sure <= maxSkew:
		return Good(check, found)
	case skew > 0:
		found = fmt.Sprintf("%v ahead of ours", Short(skew))
	default:
		found = fmt.Sprintf("%v behind ours", Short(-skew))
	}
	return Warn(check, found, meaning, mend)
}

// Short returns a duration with as many digits as a person reads.
func Short(d time.Duration) time.Duration {
	switch abs := d.Abs(); {
	case abs >= time.Minute:
		return d.Round(time.Second)
	case abs >= time.Second:
		return d.Round(100 * time.Millisecond)
	case abs >= 10*time.Millisecond:
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}
