package soaktest

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
)

// A Cluster is servers that elect a leader.
type Cluster struct {
	Members    []*testserver.Server
	Network    *faultproxy.Network // between the members
	Leader     func() int          // waits until there is one
	MoveLeader func() bool         // to another member; reports whether that worked
	Await      func()              // returns when all members serve
	Longest    time.Duration       // of a fault; elections should be shorter
}

// faults brings faults to a cluster, one at a time.
type faults struct {
	Cluster
	links []*faultproxy.Proxy // from the clients to each member
	rnd   *rand.Rand
	a     *audit
}

// strikeFor brings faults for a time d, or until the test fails.
func (f *faults) strikeFor(d time.Duration) {
	ctx, cancel := context.WithTimeout(f.a.t.Context(), d)
	defer cancel()
	for ctx.Err() == nil && !f.a.t.Failed() {
		f.strike(ctx)
	}
}

// strike brings one fault and repairs it. The cluster works afterwards.
func (f *faults) strike(ctx context.Context) {
	one := f.rnd.IntN(len(f.Members))
	if f.rnd.IntN(2) == 0 {
		one = f.Leader()
	}
	member, link := f.Members[one], f.links[one]
	switch f.rnd.IntN(7) {
	case 0:
		f.a.count("killed")
		member.Kill()
		f.last(ctx, f.Longest)
		member.Restart()
	case 1:
		f.a.count("paused")
		member.Pause()
		f.last(ctx, f.Longest)
		member.Resume()
	case 2:
		f.a.count("isolated from the others")
		f.Network.Isolate(one)
		f.last(ctx, f.Longest)
		f.Network.Heal()
	case 3:
		for range 1 + f.rnd.IntN(5) {
			if f.MoveLeader() {
				f.a.count("leader moved")
			}
		}
	case 4:
		f.a.count("connections reset")
		link.Reset()
	case 5:
		f.a.count("silent to clients")
		link.BlackHole(faultproxy.Both)
		f.last(ctx, f.Longest)
		link.Heal()
	case 6:
		f.a.count("slow to clients")
		link.Delay(faultproxy.Both, time.Duration(f.rnd.Int64N(int64(100*time.Millisecond))))
		f.last(ctx, time.Second)
		link.Heal()
	}
	f.Await()
	f.last(ctx, time.Second)
}

// last lets a fault last for a random time up to most.
func (f *faults) last(ctx context.Context, most time.Duration) {
	select {
	case <-time.After(time.Duration(f.rnd.Int64N(int64(most)))):
	case <-ctx.Done():
	}
}
