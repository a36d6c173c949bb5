package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/pawl-go/pawl"
)

// wanted is the name that all wait for.
const wanted = "scale/wanted"

// kept is how many names the waiting process holds meanwhile: holds come before waiters.
const kept = 10

// leastServed is how many of those that wait have to be served in a TTL.
const leastServed = 10

// A crowd waits for one name.
type crowd struct {
	clients []*pawl.Client // one for all, or one for each
	kept    []*pawl.Lease  // what the one holds beside

	mu     sync.Mutex // guards what follows
	served []string   // the notes of those that had the name, in order
	failed error      // of the first that failed
}

// wait lets a crowd wait behind a holder for one and a half TTLs, and then serves it for
// one. Nobody may lose a hold or a place, and all are served in order.
func (p *performer) wait(ctx context.Context) (got step, err error) {
	holder, err := p.open(ctx)
	if err != nil {
		return got, err
	}
	hold, err := holder.Mutex(wanted).Lock(ctx)
	if err != nil {
		return got, err
	}
	c := &crowd{clients: make([]*pawl.Client, 1)}
	if p.Kind != waiting {
		c.clients = make([]*pawl.Client, p.N)
	}
	begun := time.Now()
	opening, cancel := context.WithTimeout(ctx, p.Take)
	defer cancel()
	n, err := concurrently(len(c.clients), func(i int) (err error) {
		for { // so many at a time are more than one process is made for, and not what is measured
			if c.clients[i], err = p.open(opening); err == nil || !rest(opening, p.TTL/10) {
				return err
			}
		}
	})
	if err != nil {
		return got, faultf("after %.0f s only %d clients had a connection: %v", time.Since(begun).Seconds(), n, err)
	}
	if p.Kind == waiting {
		c.kept = make([]*pawl.Lease, kept)
		if _, err := p.take(ctx, c.clients[0], c.kept, "scale/kept"); err != nil {
			return got, err
		}
	}
	all := append(slices.Clone(c.clients), holder)
	well := func() error {
		if err := hold.Err(); err != nil {
			return faultf("the holder lost its lease: %v", err)
		}
		if n := lost(all); n > 0 {
			return faultf("%d leases were lost%s", n, why(c.kept))
		}
		return c.fault()
	}
	waits, stop := context.WithCancel(ctx)
	defer stop()
	within := time.Duration(0)
	if p.Kind == arriving {
		within = p.Take * 2 / 3
	}
	c.enter(waits, p.N, within)
	line, err := p.inLine(ctx, holder, c, begun, well)
	got.Seconds = time.Since(begun).Seconds()
	if err != nil {
		return got, err
	}
	for end := time.Now().Add(p.TTL * 3 / 2); time.Now().Before(end); rest(ctx, p.TTL/20) {
		if err := well(); err != nil {
			return got, err
		}
		if ctx.Err() != nil {
			return got, faultf("the time was over before one and a half TTLs had passed")
		}
	}
	if err := p.sameLine(ctx, holder, line); err != nil {
		return got, err
	}
	begun = time.Now()
	if err := hold.Unlock(); err != nil {
		return got, faultf("the holder's Unlock: %v", err)
	}
	for time.Since(begun) < p.TTL && c.count() < p.N && ctx.Err() == nil {
		rest(ctx, p.TTL/100)
	}
	served := c.order()
	took := time.Since(begun)
	got.Pace = float64(len(served)) / took.Seconds()
	return got, p.judge(served, line, took, errFirst(c.fault(), lostIn(all)))
}

// enter lets n wait, who come evenly within some time, each with its number as its note.
func (c *crowd) enter(ctx context.Context, n int, within time.Duration) {
	for i := range n {
		note := strconv.Itoa(i)
		mutex := c.clients[i%len(c.clients)].Mutex(wanted, pawl.WithFair(), pawl.WithNote(note))
		go func() { // ends with ctx
			if !rest(ctx, within*time.Duration(i)/time.Duration(n)) {
				return
			}
			l, err := mutex.Lock(ctx)
			if err == nil {
				c.mu.Lock()
				c.served = append(c.served, note)
				c.mu.Unlock()
				err = l.Unlock()
			}
			if err != nil && ctx.Err() == nil {
				c.mu.Lock()
				c.failed = errFirst(c.failed, err)
				c.mu.Unlock()
			}
		}()
	}
}

func (c *crowd) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.served)
}

func (c *crowd) order() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.served)
}

// fault returns what went wrong for one that waits.
func (c *crowd) fault() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed != nil {
		return faultf("one that waited: %v", c.failed)
	}
	return nil
}

// inLine waits until all wait, and returns the notes of the line. Where the store has no
// line it is empty.
func (p *performer) inLine(ctx context.Context, holder *pawl.Client, c *crowd, begun time.Time, well func() error) (line []string, err error) {
	for {
		n := 0
		for _, one := range c.clients {
			n += one.Stats().WaitingNow
		}
		if n == p.N {
			if line, err = notes(ctx, holder); err != nil || len(line) == p.N {
				return line, err
			}
			if !holder.Engine().Features().Queue {
				return nil, nil
			}
		}
		if err := well(); err != nil {
			return nil, err
		}
		if took := time.Since(begun); took > p.Take || ctx.Err() != nil {
			return nil, faultf("after %.0f s only %d waited, %d of them in line", took.Seconds(), n, len(line))
		}
		rest(ctx, p.TTL/50)
	}
}

// notes returns the notes of those that wait, in the line's order.
func notes(ctx context.Context, c *pawl.Client) (all []string, err error) {
	line, err := c.Line(ctx, wanted)
	if err != nil {
		return nil, fault(fmt.Sprintf("the line could not be read: %v", err))
	}
	for _, e := range line {
		if !e.Held {
			all = append(all, e.Note)
		}
	}
	return all, nil
}

// sameLine checks that everybody has the place that it had.
func (p *performer) sameLine(ctx context.Context, holder *pawl.Client, line []string) error {
	if line == nil {
		return nil
	}
	now, err := notes(ctx, holder)
	if err != nil {
		return err
	}
	if len(now) != len(line) {
		return faultf("of %d places in line %d are there", len(line), len(now))
	}
	if i := firstDifference(now, line); i >= 0 {
		return faultf("after one and a half TTLs the line is another from place %d on", i)
	}
	return nil
}

// judge says whether those that were served came in their order, and at all.
func (p *performer) judge(served, line []string, took time.Duration, err error) error {
	if err != nil {
		return err
	}
	if line != nil {
		if i := firstDifference(served, line); i >= 0 {
			return faultf("the %d. to be served was not the %d. in line", i+1, i+1)
		}
	}
	if want := min(p.N, leastServed); len(served) < want {
		return faultf("%d were served in %.0f s, %d is the least", len(served), took.Seconds(), want)
	}
	return nil
}

// firstDifference returns the first index at which both have an element, and not the
// same; -1 if there is none.
func firstDifference(a, b []string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

func errFirst(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func lostIn(all []*pawl.Client) error {
	if n := lost(all); n > 0 {
		return faultf("%d leases were lost while all were served", n)
	}
	return nil
}
