package sim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/history"
	"github.com/pawl-go/pawl/quorum"
)

// A process is one simulated process: a client on paths of its own, and goroutines that
// use it. One that is killed or closed is followed by another.
type process struct {
	w      *world
	id     int // the client in the history
	place  int // which of the setting's processes it is
	paths  []*path
	engine driver.Engine
	client *pawl.Client
	lanes  []*lane
	all    sync.WaitGroup // the lanes

	ctx  context.Context // ends when it is killed
	kill context.CancelFunc

	// guarded by world.mu
	dead    bool
	closed  bool
	resumed chan struct{} // closed when a pause ends; nil: it runs
}

// start starts a process in a place of the setting.
func (w *world) startProcess(place int) *process {
	w.mu.Lock()
	p := &process{w: w, id: len(w.processes), place: place}
	w.processes = append(w.processes, p)
	w.mu.Unlock()
	p.ctx, p.kill = context.WithCancel(context.Background())
	for i, n := range w.nodes {
		p.paths = append(p.paths, &path{w: w, proc: p, at: i, node: n})
	}
	p.engine = p.paths[0]
	if len(w.nodes) > 1 {
		p.engine = p.quorum()
	}
	p.client = pawl.New(p.engine, pawl.WithTTL(w.ttl), pawl.WithNote(fmt.Sprint("process ", p.id)), pawl.WithObserver(queueObserver{}))
	p.startLanes()
	return p
}

func (p *process) startLanes() {
	for i := range p.w.lanes[p.place] {
		p.startLane(i, (*lane).locks)
	}
	if p.w.recipes {
		for i := range 2 {
			p.startLane(10+i, (*lane).runsOnce)
			p.startLane(20+i, (*lane).counts)
			p.startLane(30+i, (*lane).leads)
		}
		if p.place == 0 {
			p.startLane(40, (*lane).observes)
		}
	}
}

func (p *process) quorum() driver.Engine {
	var all []quorum.Node
	for i, path := range p.paths {
		all = append(all, quorum.Node{Name: fmt.Sprint("n", i), Engine: path})
	}
	e, err := quorum.New(all, quorum.WithMaxTTL(p.w.ttl))
	if err != nil {
		panic(err) // the nodes are named right
	}
	return labelled{e, p.w}
}

// runs returns when the process is not paused, and reports whether it was. After a pause
// each caller goes on at a moment of its own, which its key decides.
func (p *process) runs(key uint64) (was bool) {
	for {
		p.w.mu.Lock()
		resumed := p.resumed
		p.w.mu.Unlock()
		if resumed == nil {
			return was
		}
		<-resumed
		was = true
		time.Sleep(between(mix(p.w.seed, uint64(p.id), key, uint64(time.Since(p.w.start))), 1, 50*time.Microsecond))
	}
}

func (p *process) killed() bool {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return p.dead
}

// gone reports whether the lanes should end.
func (p *process) gone() bool {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return p.dead || p.closed || p.w.stopping
}

// pause stops the process for d.
func (p *process) pause(d time.Duration) {
	w := p.w
	w.mu.Lock()
	if p.resumed != nil || p.dead || p.closed {
		w.mu.Unlock()
		return
	}
	resumed := make(chan struct{})
	p.resumed = resumed
	from := w.now()
	w.faultLocked(p.id, history.Pause, from, from+history.Time(d+100*time.Microsecond))
	w.tally.Faults["pause"]++
	w.mu.Unlock()
	w.later(d, func() {
		w.mu.Lock()
		p.resumed = nil
		w.mu.Unlock()
		close(resumed)
	})
}

// die kills the process: nothing of it leaves or arrives any more.
func (p *process) die() {
	w := p.w
	w.mu.Lock()
	if p.dead || p.closed || p.resumed != nil {
		w.mu.Unlock()
		return
	}
	p.dead = true
	w.faultLocked(p.id, history.Kill, w.now(), w.now())
	w.tally.Faults["kill"]++
	w.mu.Unlock()
	p.kill()
	w.startProcess(p.place)
}

// closeAndReopen closes the client while its lanes use it.
func (p *process) closeAndReopen() {
	w := p.w
	w.mu.Lock()
	if p.dead || p.closed || p.resumed != nil {
		w.mu.Unlock()
		return
	}
	p.closed = true
	w.tally.Faults["close"]++
	w.mu.Unlock()
	w.calls.Go(func() {
		p.close()
		w.startProcess(p.place)
	})
}

// maxClose is how long Close may take: 5 s for Unlocks under way, and 5 s for the store.
const maxClose = 11 * time.Second

func (p *process) close() {
	from := p.w.now()
	_ = p.client.Close() // fails where the store is away
	if took := time.Duration(p.w.now() - from); took > maxClose && !p.stoodStill(from) {
		p.w.breach(EndlessWait, "Close of client %d took %v", p.id, took)
	}
	if len(p.w.nodes) > 1 {
		_ = p.engine.Close()
	}
}

// stoodStill reports whether the process was paused since.
func (p *process) stoodStill(since history.Time) bool {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	for _, f := range p.w.faults {
		if f.Client == p.id && (f.Kind == history.Pause || f.Kind == history.Kill) && f.To >= since {
			return true
		}
	}
	return false
}

// queueObserver notes when an acquire was in line.
type queueObserver struct{}

func (queueObserver) Direct() {}

func (queueObserver) Observe(e pawl.Event) {
	if e.Kind != pawl.Waiting {
		return
	}
	if t, ok := e.Context.Value(ticketKey{}).(*ticket); ok && t.queued == 0 {
		t.queued = t.w.now()
	}
}
