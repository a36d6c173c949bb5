package sim

import (
	"context"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/history"
)

// weather plays faults until the work is over, and then mends everything.
func (w *world) weather() {
	r := newSource(w.seed, text("weather"))
	end := w.start.Add(w.work)
	for time.Now().Before(end) {
		rest := r.between(w.ttl/10, 2*w.ttl)
		if r.chance(30) {
			rest = r.between(3*w.ttl, 8*w.ttl) // long enough for the rules that make allowances
		}
		d, what, whom, n := r.between(w.ttl/20, 2*w.ttl), r.below(20), r.next(), r.next()
		time.Sleep(min(rest, time.Until(end)+time.Duration(1+r.below(999))))
		if time.Now().Before(end) && !w.calm {
			w.strike(what, d, whom, n)
		}
	}
	w.mu.Lock()
	w.stopping = true
	w.mu.Unlock()
}

// strike does one thing to a process or to the store.
func (w *world) strike(what int, d time.Duration, whom, n uint64) {
	p := w.alive(whom)
	switch {
	case what < 4:
		w.disturb(p, int(10+n%60), d)
	case what < 6: // and nothing after it
		w.disturb(p, int(10+n%60), d)
		time.Sleep(d - d/8)
		w.cut(p, 0, w.ttl+d/3)
	case what < 9:
		w.cut(p, n, d)
	case what < 11:
		p.pause(d)
	case what < 12:
		p.die()
	case what < 13:
		p.closeAndReopen()
	case what < 15:
		w.restart(n, d)
	case what < 17:
		w.evict(n)
	case what < 18:
		w.forget(n)
	default:
		w.step(n, d)
	}
}

// alive chooses a process that runs.
func (w *world) alive(n uint64) *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []*process
	for _, p := range w.processes {
		if !p.dead && !p.closed {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return w.processes[len(w.processes)-1]
	}
	return all[n%uint64(len(all))]
}

// disturb has messages of a process lost, late or doubled for d.
func (w *world) disturb(p *process, percent int, d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, path := range p.paths {
		path.lossy = percent
	}
	w.faultLocked(p.id, "messages", w.now(), w.now()+history.Time(d+w.ttl)) // what is late arrives within a TTL
	w.later(d, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, path := range p.paths {
			path.lossy = 0
		}
	})
}

// cut cuts a process off from the store, or from some nodes, in one direction or both.
func (w *world) cut(p *process, n uint64, d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	out, back := n%3 != 1, n%3 != 2
	set := func(out, back bool) {
		for i, path := range p.paths {
			if len(p.paths) == 1 || n>>(8+i)&1 == 0 {
				path.cutOut, path.cutBack = out, back
			}
		}
	}
	set(out, back)
	w.faultLocked(p.id, "cut", w.now(), w.now()+history.Time(d))
	w.tally.Faults["cut"]++
	w.later(d, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		set(false, false)
	})
}

// restart stops a node for d; it keeps its data.
func (w *world) restart(n uint64, d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	node := w.nodes[n%uint64(len(w.nodes))]
	if node.down {
		return
	}
	node.down = true
	node.restart()
	w.faultLocked(history.AllClients, "restart", w.now(), w.now()+history.Time(d))
	w.tally.Faults["restart with data"]++
	w.later(d, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		node.down = false
		node.session, node.restart = context.WithCancel(context.Background())
	})
}

// evict ends a held claim, as an operator does; often while its holder gets no answers.
func (w *world) evict(n uint64) {
	var held []driver.Entry
	for e := range w.nodes[n%uint64(len(w.nodes))].mem.List(context.Background(), "") {
		if e.Held && !strings.HasPrefix(e.Name, ".pawl/once/") { // two runs beside each other would be right then
			held = append(held, e)
		}
	}
	if len(held) == 0 {
		return
	}
	victim := held[n/7%uint64(len(held))]
	w.mu.Lock()
	w.evicted[victim.ID] = w.now()
	w.faultLocked(history.AllClients, "evict", w.now(), w.now())
	w.tally.Faults["eviction"]++
	owner := w.owners[victim.Session]
	w.mu.Unlock()
	if owner != nil && n&1 == 0 {
		w.cut(owner, 1, min(w.ttl/6, 3*time.Second)) // only answers
	}
	for _, node := range w.nodes {
		line, _ := node.mem.Line(context.Background(), victim.Name)
		for _, e := range line {
			if e.ID == victim.ID {
				_ = node.mem.Evict(context.Background(), e) // it is there
			}
		}
	}
}

// forget has a node lose its data: one of a minority, or the only one, in an episode in
// which that is judged accordingly.
func (w *world) forget(n uint64) {
	node := w.nodes[n%uint64(len(w.nodes))]
	if len(w.nodes) == 1 && w.defect != forgetful || !w.maySpare(node) {
		return
	}
	w.mu.Lock()
	if len(w.nodes) == 1 {
		w.faultLocked(history.AllClients, "data lost", w.now(), w.now())
	} else {
		w.faultLocked(history.AllClients, "data lost", w.now(), w.now()+history.Time(2*w.ttl))
	}
	w.tally.Faults["restart without data"]++
	node.restart()
	node.session, node.restart = context.WithCancel(context.Background())
	w.mu.Unlock()
	node.mem.Forget()
}

// maySpare reports whether a majority remembers everything without a node.
func (w *world) maySpare(but *node) bool {
	lost := 0
	for _, n := range w.nodes {
		if n != but && !n.mem.Votes() {
			lost++
		}
	}
	return len(w.nodes) == 1 || lost < (len(w.nodes)-1)/2
}

// step sets a node's clock: back in every episode, and forward in some, whose store then
// promises less.
func (w *world) step(n uint64, d time.Duration) {
	node := w.nodes[n%uint64(len(w.nodes))]
	w.mu.Lock()
	forward := w.defect == stepped && n&64 != 0
	if !forward {
		d = -min(d, w.ttl/2)
		if w.stepsBack -= d; w.stepsBack > 2*w.ttl {
			w.stepsBack += d
			w.mu.Unlock()
			return
		}
	}
	w.faultLocked(history.AllClients, "clock step", w.now(), w.now())
	w.tally.Faults["clock step"]++
	w.mu.Unlock()
	node.mem.StepClock(d)
}
