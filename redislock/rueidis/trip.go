package rueidis

import (
	"context"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/redislock"
)

// worthMerging is how many calls of a kind there must be: merging itself costs.
const worthMerging = 4

// A trip takes calls to the server and brings the answers back.
type trip struct {
	d    redis.DedicatedClient
	load []*rider
	lost bool // the connection failed

	parcels, next []parcel
	cmds          []redis.Completed
}

// A parcel is one command: of one rider, or merged of several of a kind.
type parcel struct {
	kind   redislock.Kind // "" if it is not merged
	whole  bool           // with the script
	riders []*rider
}

// run makes the trip. It goes again for whom a merged command did nothing, and
// where the server did not know its script.
func (t *trip) run() {
	t.pack()
	for len(t.parcels) > 0 && !t.lost {
		t.cmds = t.cmds[:0]
		for _, p := range t.parcels {
			t.cmds = append(t.cmds, p.command(t.d.B()))
		}
		if len(t.cmds) == 1 {
			t.deliver(t.parcels[0], t.d.Do(context.Background(), t.cmds[0]))
		} else {
			for i, res := range t.d.DoMulti(context.Background(), t.cmds...) {
				t.deliver(t.parcels[i], res)
			}
		}
		t.parcels, t.next = t.next, t.parcels[:0]
	}
	for _, p := range t.parcels { // the connection failed before they were sent
		for _, w := range p.riders {
			w.walk = true
			w.back <- struct{}{}
		}
	}
	t.parcels = t.parcels[:0]
}

// pack makes parcels of the load.
func (t *trip) pack() {
	t.parcels = t.parcels[:0]
	for _, w := range t.load {
		if at := t.find(w.kind); at >= 0 {
			t.parcels[at].riders = append(t.parcels[at].riders, w)
		} else {
			t.parcels = append(t.parcels, parcel{kind: w.kind, riders: []*rider{w}})
		}
	}
	merged := t.parcels
	for i, p := range merged {
		if len(p.riders) >= worthMerging {
			continue
		}
		t.parcels[i].kind, t.parcels[i].riders = "", p.riders[:1]
		for _, w := range p.riders[1:] {
			t.parcels = append(t.parcels, parcel{riders: []*rider{w}})
		}
	}
}

func (t *trip) find(k redislock.Kind) int {
	if k == "" {
		return -1
	}
	for i := range t.parcels {
		if t.parcels[i].kind == k {
			return i
		}
	}
	return -1
}

func (p parcel) command(b redis.Builder) redis.Completed {
	if p.kind == "" {
		return b.Arbitrary(p.riders[0].words...).Build()
	}
	all := make([][]string, len(p.riders))
	for i, w := range p.riders {
		all[i] = w.words
	}
	return b.Arbitrary(redislock.Merge(p.kind, all, p.whole)...).Build()
}

// deliver gives the riders of a parcel their answers, or makes parcels for the
// next round of them.
func (t *trip) deliver(p parcel, res redis.RedisResult) {
	t.lost = t.lost || res.NonRedisError() != nil
	r, err := answer(res)
	if p.kind != "" && redislock.Unknown(err) {
		t.next = append(t.next, parcel{p.kind, true, p.riders})
		return
	}
	for i, w := range p.riders {
		w.Reply, w.Err = r, err
		if p.kind != "" && err == nil {
			var served bool
			if w.Reply, served = redislock.Split(r, i); !served {
				t.next = append(t.next, parcel{riders: []*rider{w}})
				continue
			}
		}
		w.back <- struct{}{}
	}
}
