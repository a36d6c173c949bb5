package verify

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultdial"
	"github.com/pawl-go/pawl/internal/history"
)

// A worker is a process that uses locks, and records what it does.
type worker struct {
	setup
	ctx     context.Context
	client  *pawl.Client
	link    *faultdial.Link
	holding atomic.Bool  // holders hold on: a fault is coming or under way, or they are to hold beyond the TTL
	resting atomic.Bool  // nothing new is begun
	stopped atomic.Int64 // the history.Time at which the worker was told to stop
	records lineWriter
	alone   chan struct{} // closed when the coordinator has ended
	ids     atomic.Int64

	mu      sync.Mutex // guards waiting
	waiting map[int]chan struct{}
}

// attemptKey is the context key of an *attempt.
type attemptKey struct{}

// An attempt is what is known of an acquire while it waits.
type attempt struct {
	id    int
	claim atomic.Pointer[string] // the ID of the claim that it last had in line
}

// Work is the main function of a worker process. It returns when its input ends or says so.
func Work(in io.Reader, out io.Writer) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	w := &worker{ctx: ctx, link: faultdial.New(), records: lineWriter{w: out}, alone: make(chan struct{}), waiting: map[int]chan struct{}{}}
	ready := make(chan struct{})
	read := make(chan error, 1)
	go func() { // ends with the process
		read <- readLines(in, func(o order) {
			if o.Setup != nil {
				w.setup = *o.Setup
				close(ready)
				return
			}
			w.obey(o, stop)
		})
		close(w.alone)
		stop()
	}()
	select {
	case <-ready:
	case err := <-read:
		return fmt.Errorf("no setup: %w", err)
	}
	engine, err := w.open(ctx)
	if err != nil {
		w.out(record{Fatal: err.Error()})
		return err
	}
	defer engine.Close()
	w.client = pawl.New(recordedEngine{engine, w}, pawl.WithTTL(w.TTL), pawl.WithNote("pawl verify"), pawl.WithObserver(waitObserver{w}))
	w.out(record{Ready: true})
	var lanes sync.WaitGroup
	lanes.Go(func() { w.watchStalls(ctx) })
	for n, kinds := range lanesOf(w.setup) {
		l := &lane{w, n + 1, kinds, rand.New(rand.NewPCG(w.Seed, uint64(n)))}
		lanes.Go(func() { l.run(ctx) })
	}
	lanes.Wait()
	return w.client.Close()
}

// firstContact is how long the store may take to be opened.
const firstContact = 10 * time.Second

func (w *worker) open(ctx context.Context) (driver.Engine, error) {
	ctx, cancel := context.WithTimeout(ctx, firstContact)
	defer cancel()
	return openEngine(driver.WithDialer(ctx, w.link.Dial), w.Store, w.Planted)
}

func (w *worker) nextID() int { return int(w.ids.Add(1)) }

// out writes a record. The coordinator that does not read any more has ended, and this
// process ends with its input; one that reads slowly holds up the goroutine.
func (w *worker) out(r record) {
	at := now()
	_ = w.records.write(r)
	w.stalled(at)
}

// stalled records that a goroutine which wanted to go on at once at a moment, or a
// millisecond later, could not.
func (w *worker) stalled(since history.Time) {
	if at := now(); at-since > history.Time(tooLate) {
		_ = w.records.write(record{StallFrom: since, StallTo: at})
	}
}

// obey carries out an order.
func (w *worker) obey(o order, stop func()) {
	switch {
	case o.Stop:
		w.stopped.Store(int64(now()))
		stop()
	case o.Hold:
		w.holding.Store(true)
	case o.Rest, o.GoOn:
		w.resting.Store(o.Rest)
	case o.Heal:
		w.link.Heal()
		w.holding.Store(false)
	case o.Fault != "":
		w.holding.Store(lasting(o.Fault))
		bringAbout(w.link, o.Fault, o.Delay)
	case o.Answer != 0:
		w.mu.Lock()
		defer w.mu.Unlock()
		if c, ok := w.waiting[o.Answer]; ok {
			close(c)
			delete(w.waiting, o.Answer)
		}
	}
}

// write writes to the register, and waits for its answer.
func (w *worker) write(id int, token uint64) {
	answered := make(chan struct{})
	w.mu.Lock()
	w.waiting[id] = answered
	w.mu.Unlock()
	at := now()
	w.out(record{ID: id, Write: true, Token: token, At: at})
	select {
	case <-answered:
		w.out(record{ID: id, Wrote: now()})
		w.stalled(at)
	case <-w.alone:
	}
}

const (
	tick    = 20 * time.Millisecond
	tooLate = 30 * time.Millisecond // less than the margin of every lease
)

// watchStalls records when this process did not run.
func (w *worker) watchStalls(ctx context.Context) {
	t := time.NewTicker(tick)
	defer t.Stop()
	last := now()
	for over := false; !over; {
		select {
		case <-t.C:
		case <-ctx.Done(): // which a stall may have hidden
			over = true
		}
		at := now()
		if at-last > history.Time(tick+tooLate) {
			w.out(record{StallFrom: last, StallTo: at})
		}
		last = at
	}
}
