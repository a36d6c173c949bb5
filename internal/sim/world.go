package sim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-go/pawl/internal/history"
	"github.com/pawl-go/pawl/memlock"
)

// A node is one store with what can be done to it.
type node struct {
	mem *memlock.Engine

	// guarded by world.mu
	down    bool
	session context.Context // of the connections: ends when the store restarts
	restart context.CancelFunc
}

// A world is everything of one episode.
type world struct {
	*setting
	start time.Time
	nodes []*node
	late  sync.WaitGroup // messages under way that nobody waits for
	calls sync.WaitGroup // goroutines of processes

	mu        sync.Mutex // guards the following, and the fields of others that say so
	processes []*process
	owners    map[string]*process // of sessions in the store, by ID
	evicted   map[string]history.Time
	claimants map[string]uint64 // acquires, by the IDs of their claims
	faults    []history.Fault
	registers map[string]*register
	jobs      map[string]*job
	counters  map[string]*counter
	updates   map[string]int // writes of cells, by the call of Update
	breaches  []Breach
	tally     *Tally
	stopping  bool
}

func newWorld(s *setting, tally *Tally) *world {
	w := &world{
		setting: s, start: time.Now(), tally: tally,
		owners: map[string]*process{}, evicted: map[string]history.Time{}, claimants: map[string]uint64{}, registers: map[string]*register{}, jobs: map[string]*job{}, counters: map[string]*counter{}, updates: map[string]int{},
	}
	for range s.nodes {
		n := &node{mem: memlock.New()}
		n.session, n.restart = context.WithCancel(context.Background())
		w.nodes = append(w.nodes, n)
	}
	return w
}

// now is the time since the episode began; it is never 0.
func (w *world) now() history.Time { return history.Time(time.Since(w.start)) + 1 }

// A Breach is a promise that was not kept, found by the simulation itself or by a rule of
// package history.
type Breach struct {
	Rule history.Rule
	At   history.Time
	Text string
}

// The rules beyond those of package history.
const (
	EndlessWait  history.Rule = "every call returns in time"
	keptHolds    history.Rule = "nothing is lost without a fault"
	trueAnswers  history.Rule = "an answer says what is so"
	onceOnly     history.Rule = "work runs once"
	noLostUpdate history.Rule = "no update is lost"
	leaderOrder  history.Rule = "leaders are seen one after the other"
	ownExclusion history.Rule = "leases inside a lease exclude each other"
	nothingKept  history.Rule = "nothing is left in the process"
	leavesLine   history.Rule = "who gives up leaves the line"
)

func (w *world) breach(rule history.Rule, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.breaches = append(w.breaches, Breach{rule, w.now(), fmt.Sprintf(format, args...)})
}

// fault records what was done to a client, for the rules that make allowances.
func (w *world) fault(client int, kind string, from, to history.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faultLocked(client, kind, from, to)
}

func (w *world) faultLocked(client int, kind string, from, to history.Time) {
	w.faults = append(w.faults, history.Fault{Client: client, Kind: kind, From: from, To: to})
}

// disturbed reports whether a client, or the store, had a fault from two TTLs before.
func (w *world) disturbed(client int, from, to history.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	from -= history.Time(2 * w.keeps())
	for _, f := range w.faults {
		if (f.Client == client || f.Client == history.AllClients) && f.To >= from && f.From <= to {
			return true
		}
	}
	return false
}

func (w *world) count(add func(t *Tally)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	add(w.tally)
}

// later does something after d, in the background.
func (w *world) later(d time.Duration, do func()) {
	w.late.Go(func() {
		time.Sleep(d)
		do()
	})
}

func (w *world) stopped() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stopping
}

// A register is outside of the store, and refuses stale tokens.
type register struct {
	highest uint64
	seq     int
}

// write takes in a write with a token.
func (w *world) write(name string, token uint64) (seq int, accepted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.registers[name]
	if r == nil {
		r = &register{}
		w.registers[name] = r
	}
	r.seq++
	if token < r.highest {
		return r.seq, false
	}
	r.highest = token
	return r.seq, true
}
