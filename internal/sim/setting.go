package sim

import (
	"fmt"
	"time"

	"github.com/pawl-go/pawl/internal/history"
)

// A scale is a range of TTLs. Most of the simulated time comes from long ones, most of
// the operations from short ones.
type scale struct {
	name     string
	min, max time.Duration
	weight   int
	quorum   bool // waiters of a quorum ask again every second, so long waits cost too much
	sparse   bool // locks are mostly free: while one is held, its keeper looks ten times a second
}

var scales = []scale{
	{"100 ms to 1 s", 100 * time.Millisecond, time.Second, 8, true, false},
	{"1 s to 10 s", time.Second, 10 * time.Second, 8, true, false},
	{"10 s to 2 min", 10 * time.Second, 2 * time.Minute, 4, true, false},
	{"2 min to 1 h", 2 * time.Minute, time.Hour, 1, false, true},
	{"1 h to 12 h", time.Hour, 12 * time.Hour, 3, false, true},
}

// A defect is what a store of an episode does that breaks some promises by design.
type defect int

const (
	sound     defect = iota
	stepped          // its clock is set forward
	forgetful        // a single store loses its data
)

func (d defect) String() string { return [...]string{"sound", "clock set forward", "data lost"}[d] }

// A setting is what is drawn from the seed before an episode begins.
type setting struct {
	seed      uint64
	scale     int
	nodes     int // 1: one memory store; else a quorum of so many
	ttl       time.Duration
	latency   time.Duration // the longest of one way, without faults
	processes int
	lanes     []int // by process
	work      time.Duration
	defect    defect
	stepsBack time.Duration // the sum of all steps of a store's clock
	recipes   bool
	sparse    bool
	calm      bool // no faults at all: every hold must be kept, every unlock answered
}

func draw(seed uint64) *setting {
	r := newSource(seed, text("setting"))
	s := &setting{seed: seed, nodes: 1}
	s.scale = drawScale(r)
	of := scales[s.scale]
	if of.quorum && r.chance(40) {
		s.nodes = 3 + 2*r.below(2)
	}
	s.ttl = r.between(of.min, of.max).Round(time.Millisecond)
	s.latency = min(s.ttl/40, r.between(200*time.Microsecond, 8*time.Millisecond))
	s.processes = 2 + r.below(3)
	for range s.processes {
		s.lanes = append(s.lanes, 1+r.below(4))
	}
	s.work = time.Duration(20+r.below(40)) * s.ttl
	if s.sparse = of.sparse; s.sparse {
		s.work *= 2
	}
	s.recipes = s.nodes == 1 && r.chance(50)
	switch n := r.below(10); {
	case n == 0:
		s.calm = true
	case n == 1:
		s.defect = stepped
	case n == 2 && s.nodes == 1:
		s.defect = forgetful
	}
	return s
}

func drawScale(r *source) int {
	sum := 0
	for _, s := range scales {
		sum += s.weight
	}
	n := r.below(sum)
	for i, s := range scales {
		if n -= s.weight; n < 0 {
			return i
		}
	}
	return 0
}

func (s *setting) String() string {
	store := "memory"
	if s.nodes > 1 {
		store = fmt.Sprintf("a quorum of %d", s.nodes)
	}
	return fmt.Sprintf("%s (%s), TTL %v, %d processes, %v", store, s.defect, s.ttl, s.processes, s.work.Round(time.Millisecond))
}

// Quick reports whether the episode of a seed is a short one.
func Quick(seed uint64) bool { return scales[draw(seed).scale].quorum }

// judged reports whether a rule is promised by this episode's store.
func (s *setting) judged(rule history.Rule) bool {
	switch rule {
	case history.Exclusion, history.LossInTime, history.Linearizable, history.ArrivalOrder, history.StaleWrites, history.TrueRefusals:
		return s.defect == sound
	case history.UniqueTokens, history.TokenOrder:
		return s.defect != forgetful // tokens of a memory store start over with it
	}
	return true
}

// keeps is how long a store keeps a claim of a client that is gone, at most.
func (s *setting) keeps() time.Duration { return s.ttl + s.ttl/50 + 10*time.Millisecond + s.stepsBack }
