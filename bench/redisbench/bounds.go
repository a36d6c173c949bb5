package redisbench

import "github.com/pawl-go/pawl/bench/compare"

// The bounds for pawl. Each adapter is compared with the bare commands on the same
// client, and what a URL opens with those on rueidis. Peers are compared with what a URL
// opens and with the adapter that it uses; the other adapter must not be slower than
// peers on its own client.
const (
	heavier = "a claim has a token, a note and a place in line: its scripts keep the server and the client longer than SET and compare-and-delete do, see server-µs and client-µs"
	parsing = "on this client a script costs more than on the other: it is put together and its reply taken apart in many small pieces, see allocs and client-µs"
)

var (
	alone = []compare.Bound{
		{Who: "pawl redis://", Than: "bare rueidis", Factor: 0.65, Why: heavier},
		{Who: "pawl rueidis", Than: "bare rueidis", Factor: 0.65, Why: heavier},
		{Who: "pawl go-redis", Than: "bare go-redis", Factor: 0.65, Why: parsing},
		{Who: "pawl redis://", Than: "rueidislock", Factor: 1, Why: heavier},
		{Who: "pawl redis://", Than: "redsync", Factor: 1, Why: heavier},
		{Who: "pawl redis://", Than: "redislock 100ms", Factor: 1, Why: heavier},
		{Who: "pawl rueidis", Than: "rueidislock", Factor: 1, Why: heavier},
		{Who: "pawl rueidis", Than: "redsync", Factor: 1, Why: heavier},
		{Who: "pawl rueidis", Than: "redislock 100ms", Factor: 1, Why: heavier},
		{Who: "pawl go-redis", Than: "redsync", Factor: 1, Why: parsing},
		{Who: "pawl go-redis", Than: "redislock 100ms", Factor: 1, Why: parsing},
	}
	apart = []compare.Bound{
		{Who: "pawl redis://", Than: "bare rueidis", Factor: 0.55, Why: heavier},
		{Who: "pawl redis://", Than: "rueidislock", Factor: 1.3, Why: heavier},
		{Who: "pawl redis://", Than: "redsync", Factor: 1.5, Why: heavier},
		{Who: "pawl redis://", Than: "redislock 100ms", Factor: 1.2, Why: heavier},
		{Who: "pawl rueidis", Than: "bare rueidis", Factor: 0.55, Why: heavier},
		{Who: "pawl go-redis", Than: "bare go-redis", Factor: 0.55, Why: parsing},
		{Who: "pawl rueidis", Than: "rueidislock", Factor: 1.3, Why: heavier},
		{Who: "pawl rueidis", Than: "redsync", Factor: 1.5, Why: heavier},
		{Who: "pawl rueidis", Than: "redislock 100ms", Factor: 1.2, Why: heavier},
		{Who: "pawl go-redis", Than: "redsync", Factor: 1, Why: parsing},
		{Who: "pawl go-redis", Than: "redislock 100ms", Factor: 1, Why: parsing},
	}
	handoff = []compare.Bound{
		{Who: "pawl rueidis", Than: "PING rueidis", Factor: 3, AtMost: true},
		{Who: "pawl go-redis", Than: "PING go-redis", Factor: 3, AtMost: true, Why: parsing},
	}
	line = []compare.Bound{
		{Who: "pawl rueidis", Factor: 3, AtMost: true},
		{Who: "pawl go-redis", Factor: 3, AtMost: true},
		{Who: "pawl rueidis", Unit: 1, Factor: 0, AtMost: true},
		{Who: "pawl go-redis", Unit: 1, Factor: 0, AtMost: true},
	}
	together = []compare.Bound{
		{Who: "pawl rueidis", Than: "rueidislock", Factor: 20},
		{Who: "pawl rueidis", Than: "redsync", Factor: 20},
		{Who: "pawl rueidis", Than: "redislock 100ms", Factor: 20},
		{Who: "pawl rueidis", Than: "redislock 5ms", Factor: 20},
		{Who: "pawl rueidis", Unit: 1, Factor: 1},
		{Who: "pawl go-redis", Unit: 1, Factor: 1},
	}

	// What users would expect as well: as many round trips as the bare commands, no
	// slowdown by readers, and no starvation. Of the contenders in several processes
	// only those with a line are compared: one that polls after a pause is fast because
	// one process takes the name hundreds of times while the others sleep, as their
	// fewest locks show.
	latencyFar = []compare.Bound{{Who: "pawl rueidis", Than: "bare rueidis", Factor: 1.1, AtMost: true}}
	longLine   = []compare.Bound{
		{Who: "pawl rueidis", Factor: 3, AtMost: true},
		{Who: "pawl rueidis", Unit: 1, Factor: 0, AtMost: true},
	}
	processes = []compare.Bound{
		{Who: "pawl rueidis", Than: "rueidislock", Factor: 1},
		{Who: "pawl rueidis", Unit: 1, Factor: 1},
	}
	readers = []compare.Bound{{Who: "pawl rueidis", Than: "pawl mutex", Factor: 1}}
)
