package compare

import "time"

// ScaleTTL is the TTL of the leases, in whole seconds because of etcd. Beats come
// every third of it and other maintenance once per TTL, so that a round contains
// all of it.
const (
	ScaleTTL    = 3 * time.Second
	ScaleLength = ScaleTTL
)

// ScaleLoads returns loads that hold a thousandth of n names, a tenth and all, and
// one in which a tenth of n wait.
func ScaleLoads(n int) []Load {
	return []Load{{Held: n / 1000}, {Held: n / 10}, {Waiting: n / 10}, {Held: n}}
}

// ScaleBounds are the bounds for ScaleLoads: cost grows no faster than the number,
// waiting costs nothing beyond beats, and no other lock becomes slower. unchanged
// is by how much two measurements of a free name may differ.
func ScaleBounds(crews []Load, unchanged float64) (bounds []Bound) {
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
