// Package sim runs pawl in simulated time: a few processes with several goroutines each
// use locks and recipes on stores in memory, while seeded faults happen to their messages,
// to the processes and to the stores. What they did is a history, which the rules of
// package history judge; what these cannot see, such as waits without end, updates that
// are lost and claims that are left, the simulation checks by itself.
//
// A seed is one episode, and the same seed is the same episode: nothing is drawn from a
// generator that goroutines share, and no two events fall on one moment.
//
// What is not simulated: goroutines of the core go on while their process is paused,
// though all their calls and its users stand still; and time that a machine sleeps.
package sim

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/internal/history"
	"github.com/pawl-go/pawl/internal/jitter"
)

// An Outcome is what became of an episode.
type Outcome struct {
	Seed     uint64
	Setting  string
	History  *history.History
	Breaches []Breach // by time
	Tally    *Tally
}

// Run runs the episode of a seed. Tests that run beside it must not use package crypto/rand.
func Run(t *testing.T, seed uint64) *Outcome {
	s := draw(seed)
	tally := NewTally()
	o := &Outcome{Seed: seed, Tally: tally}
	w := &world{}
	cryptotest.SetGlobalRandom(t, seed)
	began := time.Now()
	if err := bubble(t, func() { w = newWorld(s, tally); o.History = w.episode() }); err != nil {
		o.Breaches = append(o.Breaches, Breach{EndlessWait, 0, fmt.Sprint("goroutines are stuck: ", err)})
	}
	o.Setting = s.String()
	o.Breaches = append(o.Breaches, w.breaches...)
	if o.History != nil {
		o.judge(s)
	}
	slices.SortStableFunc(o.Breaches, func(a, b Breach) int { return cmp.Compare(a.At, b.At) })
	tally.Episodes++
	of := &tally.ByScale[s.scale]
	of.Episodes, of.Operations, of.Simulated, of.Took = 1, tally.Operations, tally.Simulated, time.Since(began)
	return o
}

// bubble runs an episode in a bubble of synctest, and returns what its runtime says of
// goroutines that are left or blocked for ever.
func bubble(t *testing.T, run func()) (stuck any) {
	defer func() { stuck = recover() }()
	synctest.Test(t, func(*testing.T) { run() })
	return nil
}

// judge applies the rules of package history.
func (o *Outcome) judge(s *setting) {
	report := history.Check(o.History, history.Promise{Order: s.nodes == 1, Fencing: true})
	for _, v := range report.Verdicts {
		o.Tally.Undecided += v.Undecided
		if !s.judged(v.Rule) {
			continue
		}
		for _, f := range v.Violations {
			if s.defect == stepped && v.Rule == history.TokenOrder && concurrent(o.History, f.Attempts) {
				continue
			}
			o.Breaches = append(o.Breaches, Breach{v.Rule, f.At, fmt.Sprintf("%q: %s", f.Name, f.Text)})
		}
	}
}

// concurrent reports whether the later of two grants was asked for before the earlier one
// returned. Where a clock was set forward both may hold, and then the order in which they
// returned says nothing about the order of their grants.
func concurrent(h *history.History, attempts []int) bool {
	return len(attempts) == 2 && h.Attempts[attempts[1]].Called <= h.Attempts[attempts[0]].Returned
}

// Hash returns a hash of everything that was seen.
func (o *Outcome) Hash() string {
	b, err := json.Marshal(o.History)
	if err != nil {
		panic(err) // it has nothing that cannot be encoded
	}
	return fmt.Sprintf("%x", sha256.Sum256(b))
}

// Text returns the history, one line for each attempt and fault.
func (o *Outcome) Text() string {
	var b strings.Builder
	for _, a := range o.History.Attempts {
		fmt.Fprintf(&b, "%+v\n", a)
	}
	for _, f := range o.History.Faults {
		fmt.Fprintf(&b, "%+v\n", f)
	}
	return b.String()
}

// episode runs in the bubble.
func (w *world) episode() *history.History {
	restore := jitter.Replace(func(n uint64) uint64 { return mix(w.seed, uint64(time.Since(w.start)), n) % n })
	defer restore()
	for i := range w.setting.processes {
		w.startProcess(i)
	}
	w.weather()
	w.finish()
	h := w.history()
	w.judgeEnd(h)
	w.end()
	w.tally.Simulated = time.Since(w.start)
	return h
}

// finish waits until every lane has ended.
func (w *world) finish() {
	done := make(chan struct{})
	w.calls.Go(func() {
		for i := 0; ; i++ { // a client that is being closed is followed by another
			w.mu.Lock()
			if i == len(w.processes) {
				w.mu.Unlock()
				break
			}
			p := w.processes[i]
			w.mu.Unlock()
			p.all.Wait()
		}
		close(done)
	})
	select {
	case <-done:
	case <-time.After(200*w.ttl + time.Hour):
		w.breach(EndlessWait, "calls have not returned %v after the last fault", 200*w.ttl+time.Hour)
		w.mu.Lock()
		all := slices.Clone(w.processes)
		w.mu.Unlock()
		for _, p := range all {
			p.kill()
		}
		<-done
	}
}

// history gathers what the lanes have seen, in an order that does not depend on theirs.
func (w *world) history() *history.History {
	h := &history.History{TTL: w.keeps(), End: w.now()}
	for _, p := range w.processes {
		slices.SortFunc(p.lanes, func(a, b *lane) int { return cmp.Compare(a.id, b.id) })
		for _, l := range p.lanes {
			h.Attempts = append(h.Attempts, l.attempts...)
		}
	}
	h.Faults = slices.Clone(w.faults)
	return h
}

// judgeEnd looks, some time after the last call, for what should have ended by then.
func (w *world) judgeEnd(h *history.History) {
	time.Sleep(4*w.keeps() + 10*time.Second + 1)
	synctest.Wait()
	for _, n := range w.nodes {
		for e, err := range n.mem.List(context.Background(), "") {
			if err == nil {
				h.Left = append(h.Left, fmt.Sprintf("%s: %d of %d, held %v, %s", e.Name, e.Need, e.Limit, e.Held, e.Note))
			}
		}
	}
	for _, p := range w.processes {
		if p.dead || p.closed {
			continue
		}
		if st := p.client.Stats(); st.Held != 0 || st.WaitingNow != 0 || st.Departures != 0 {
			w.breach(nothingKept, "client %d: %d held, %d waiting, %d departures", p.id, st.Held, st.WaitingNow, st.Departures)
		}
	}
	if w.recipes {
		w.judgeCells()
	}
}

// end closes what is left.
func (w *world) end() {
	for _, p := range w.processes {
		if !p.closed {
			p.close()
		}
		p.kill()
	}
	w.late.Wait()
	w.calls.Wait()
	for _, n := range w.nodes {
		n.restart()
		_ = n.mem.Close()
	}
}
