package contest

import "time"

// ScaleTTL is that of the leases. Beats come every third of it, so that a round of as
// long has one for each session.
const (
	ScaleTTL    = 6 * time.Second
	ScaleLength = ScaleTTL / 3
)

// ScaleCrews are the crews of every store, and what is asked of them: cost that grows
// no faster than the number, nothing for a wait beyond its beat, and no other lock
// that is slower for it.
var ScaleCrews = []Crew{{Held: 10}, {Held: 1000}, {Held: 10_000}, {Waiting: 1000}}

// ScaleBounds are for ScaleCrews. unchanged is how many times longer a free name may
// take beside many others: what is measured twice differs by as much.
func ScaleBounds(unchanged float64) (bounds []Bound) {
	few, many, most, waiting := ScaleCrews[0].String(), ScaleCrews[1].String(), ScaleCrews[2].String(), ScaleCrews[3].String()
	for _, unit := range []int{ScaleTraffic, ScaleClient, ScaleServer} {
		bounds = append(bounds,
			Bound{Who: many, Unit: unit, Than: few, Factor: 100, AtMost: true},
			Bound{Who: most, Unit: unit, Than: many, Factor: 10, AtMost: true})
	}
	return append(bounds,
		Bound{Who: waiting, Unit: ScaleTraffic, Than: many, Factor: 1.2, AtMost: true},
		Bound{Who: most, Unit: ScaleLatency, Than: few, Factor: unchanged, AtMost: true},
		Bound{Who: waiting, Unit: ScaleLatency, Than: few, Factor: unchanged, AtMost: true})
}
