// Package verify shows whether locks keep their promises in a store: worker processes use
// locks there, faults are brought to the workers, and what they recorded is checked by the
// rules of package history.
package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/history"
)

// A Config says what to verify, and how.
type Config struct {
	Program string   // of a worker, and of this process: it calls Work
	Args    []string // its arguments, with its name as the first
	Store   string   // URL
	Planted string   // address of an engine with a planted bug, in place of Store
	Prefix  string   // of the names of locks; nothing else may use it
	Length  time.Duration
	TTL     time.Duration
	Workers int
	Lanes   int  // goroutines of each worker
	Calm    bool // the end of Length is without faults: a waiter that was forgotten shows then
	Faults  []string
	Most    int // attempts, about; 0: any number
	Seed    uint64

	Progress func(Counts) // called a few times per second; may be nil
}

// A Result is what a run has shown.
type Result struct {
	Store   string // the kind of store
	Counts  Counts
	History *history.History
	Report  *history.Report
	Length  time.Duration // how long the workers worked
	Cut     error         // why the run ended early; nil if it did not
}

// ErrInUse says that somebody else uses the prefix.
var ErrInUse = errors.New("the prefix is in use")

// A run is a run under way.
type run struct {
	Config
	program  os.FileInfo // what Program was at the beginning
	recorder *recorder
	setup    setup
	workers  []*process
	clients  int
	probe    *pawl.Lease             // of probeName
	giveUp   context.CancelCauseFunc // ends the run with an error
}

// Run verifies a store. If ctx ends, it cleans up and returns ctx's error. A run that could
// not go on is a result only if a promise was broken before.
func Run(ctx context.Context, c Config) (*Result, error) {
	program, err := os.Stat(c.Program)
	if err != nil {
		return nil, err
	}
	engine, err := openEngine(ctx, c.Store, c.Planted)
	if err != nil {
		return nil, err
	}
	defer engine.Close()
	f := engine.Features()
	kinds := kindsOf(f, c.Workers)
	r := &run{Config: c, program: program, recorder: newRecorder(kinds)}
	r.recorder.ticks = f.Store == "zookeeper"
	r.setup = setup{Store: c.Store, Planted: c.Planted, Prefix: c.Prefix, TTL: c.TTL, Workers: c.Workers, Lanes: c.Lanes, Kinds: kinds}
	client := pawl.New(engine, pawl.WithTTL(c.TTL), pawl.WithNote("pawl verify"))
	defer client.Close()
	if r.probe, err = r.takePrefix(ctx, client); err != nil {
		return nil, err
	}
	r.recorder.lasts = time.Until(r.probe.Deadline())
	begun := now()
	err = r.workAndStop(ctx, client)
	worked := c.Length
	if err != nil {
		worked = min(worked, time.Duration(now()-begun))
	}
	_ = r.probe.Unlock() // what is left of it is seen by cleanUp
	left, cleanErr := r.cleanUp(ctx, client)
	h := r.recorder.finish(begun, c.TTL, left)
	if err != nil || cleanErr != nil { // after an outage claims may be there for longer
		h.Left, h.LeftUnknown = nil, true
	}
	result := &Result{Store: f.Store, Counts: r.recorder.soFar(), History: h, Length: worked, Cut: cmp.Or(err, cleanErr, r.recorder.enough(c.TTL))}
	if result.Report, err = check(ctx, h, history.Promise{Order: f.Queue, Fencing: f.Fencing != driver.None, Kept: true}); err != nil {
		return nil, err
	}
	if result.Cut != nil && result.Report.Holds() {
		return nil, result.Cut
	}
	return result, nil
}

// check applies the rules to a history, which may take minutes. If ctx ends, it does not
// wait for that.
func check(ctx context.Context, h *history.History, p history.Promise) (*history.Report, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	done := make(chan *history.Report, 1)
	go func() { done <- history.Check(h, p) }() // ends by itself; the process exits before
	select {
	case report := <-done:
		return report, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// workAndStop runs the workers, and ends them.
func (r *run) workAndStop(ctx context.Context, c *pawl.Client) error {
	working, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	r.giveUp = giveUp
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	watched := make(chan struct{})
	go func() { defer close(watched); r.watchStore(watching, c, giveUp) }()
	err := r.work(working)
	gaveUp := context.Cause(working)
	stuck := r.stop()
	stop()
	<-watched
	return cmp.Or(err, gaveUp, stuck)
}

// probeName is a name that no worker uses. It is held for as long as the run lasts: another
// run with the same prefix sees it.
const probeName = "probe"

// takePrefix checks that the prefix is free, and takes a lock below it.
func (r *run) takePrefix(ctx context.Context, c *pawl.Client) (*pawl.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, firstContact)
	defer cancel()
	for e, err := range c.List(ctx, r.Prefix) {
		if err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %s", ErrInUse, e.Name)
	}
	l, err := c.Mutex(r.Prefix+probeName, pawl.WithWait(firstContact/2)).Lock(ctx)
	if errors.Is(err, pawl.ErrHeld) {
		return nil, fmt.Errorf("%w: %s", ErrInUse, r.Prefix+probeName)
	}
	return l, err
}

// work starts the workers and brings faults to them for as long as the run lasts.
func (r *run) work(ctx context.Context) error {
	for k := range r.Workers {
		p, err := r.begin(ctx, k)
		if p != nil {
			r.workers = append(r.workers, p)
		}
		if err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, r.Length)
	defer cancel()
	if r.Progress != nil {
		shown := make(chan struct{})
		go func() { defer close(shown); r.show(ctx) }()
		defer func() { cancel(); <-shown }()
	}
	calm := time.Duration(0)
	if r.Calm {
		calm = calmAfter(r.recorder.lifetime(r.TTL), r.Length)
	}
	faulty, endFaults := context.WithTimeout(ctx, r.Length-calm)
	defer endFaults()
	j := &injector{run: r, faults: r.Faults, rnd: rand.New(rand.NewPCG(r.Seed, 1<<32))}
	if err := j.work(faulty); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// calmAfter returns how long faults and their consequences may keep a waiter from a free
// name, or half of a short run.
func calmAfter(ttl, length time.Duration) time.Duration {
	return min(length/2, 6*ttl+3*time.Second)
}

// showEvery is the time between two calls of Progress.
const showEvery = 200 * time.Millisecond

func (r *run) show(ctx context.Context) {
	for ctx.Err() == nil {
		r.Progress(r.recorder.soFar())
		rest(ctx, showEvery)
	}
}

// begin starts a worker and waits until it is ready.
func (r *run) begin(ctx context.Context, k int) (*process, error) {
	r.clients++
	s := r.setup
	s.Slot, s.Seed = k+1, r.Seed+uint64(r.clients)
	client := r.clients
	died := func(err error) {
		r.recorder.killed(client, now())
		r.giveUp(err)
	}
	program, err := r.startable()
	if err != nil {
		return nil, err
	}
	p, err := start(program, r.Args, client, s, r.recorder, died)
	if err != nil {
		return nil, fmt.Errorf("start a worker: %w", err)
	}
	r.recorder.started()
	select {
	case err := <-p.ready:
		return p, err
	case <-ctx.Done():
		return p, context.Cause(ctx)
	}
}

// startable returns the path of the program as it was at the beginning: its file may have
// been removed or replaced, and Linux still has it.
func (r *run) startable() (string, error) {
	for _, path := range []string{r.Program, "/proc/self/exe"} {
		if there, err := os.Stat(path); err == nil && os.SameFile(there, r.program) {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s was removed or replaced during the run", r.Program)
}

// replace starts a worker in place of one that was killed. While the store is away it
// cannot begin, and is started again: watchStore decides whether the store comes back.
func (r *run) replace(ctx context.Context, k int) error {
	for patient := time.Now().Add(2 * awayForGood); ; rest(ctx, showEvery) {
		p, err := r.begin(ctx, k)
		if p != nil {
			r.workers[k] = p
		}
		if ctx.Err() != nil {
			return nil // the run is over
		}
		if _, unopened := errors.AsType[*openError](err); !unopened || time.Now().After(patient) {
			return err
		}
	}
}

// stop ends all workers. An Unlock may take five seconds; one that takes far longer is
// stuck.
func (r *run) stop() error {
	const within = 30 * time.Second
	ends := make(chan bool)
	for _, p := range r.workers {
		go func() {
			told := now()
			killed := p.stop(within)
			if killed {
				r.recorder.killed(p.client, told)
			}
			ends <- killed
		}()
	}
	killed := 0
	for range r.workers {
		if <-ends {
			killed++
		}
	}
	if killed > 0 {
		return fmt.Errorf("%d workers did not end within %v", killed, within)
	}
	return nil
}
