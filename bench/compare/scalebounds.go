package contest

import "time"

// ScaleTTL is that of the leases, in whole seconds, since etcd has no others. Beats
// come every third of it, and what else there is to do comes once in it, so that a
// round has all of it.
const (
	ScaleTTL    = 3 * time.Second
	ScaleLength = ScaleTTL
)

// ScaleCrews are crews that hold a thousandth of n names, a tenth and all, and one in
// which a tenth of n wait.
func ScaleCrews(n int) []Crew {
	return []Crew{{Held: n / 1000}, {Held: n / 10}, {Waiting: n / 10}, {Held: n}}
}

// ScaleBounds are for ScaleCrews: cost that grows no faster than the number, nothing
// for a wait beyond its beat, and no other lock that is slower for it. unchanged is
// how many times longer a free name may take beside many others: what is measured
// twice differs by as much.
func ScaleBounds(crews []Crew, unchanged float64) (bounds []Bound) {
	few, many, waiting, most := crews[0].String(), crews[1].String(), crews[2].String(), crews[3].String()
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
