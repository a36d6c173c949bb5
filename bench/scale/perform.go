package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
)

// perform starts the servers and the links, and does one step.
func perform(t testing.TB, s spec) step {
	on := storeNamed(s.Store).start(t, s.TTL)
	addrs := on.addrs
	if s.RTT > 0 {
		addrs = nil
		for _, addr := range on.addrs {
			addrs = append(addrs, startLink(t, addr, s.RTT))
		}
	}
	p := &performer{spec: s, url: on.url(addrs), count: on.count}
	if err := p.found(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), s.Limit)
	defer cancel()
	stalled := watchStalls(ctx)
	got, err := p.do(ctx)
	got.N, got.Stalled, got.Late = s.N, stalled().Seconds(), err != nil && ctx.Err() != nil
	if f := fault(""); errors.As(err, &f) {
		got.Fault = string(f)
	} else if err != nil {
		t.Fatal(err)
	}
	got.OK = err == nil
	return got
}

// A fault is what a store did not bear, as opposed to an error of the measurement.
type fault string

func (f fault) Error() string { return string(f) }

func faultf(format string, args ...any) error { return fault(fmt.Sprintf(format, args...)) }

// A performer does one step.
type performer struct {
	spec
	url   string
	count counter
}

func (p *performer) do(ctx context.Context) (step, error) {
	switch p.Kind {
	case starts:
		return step{}, nil
	case held:
		return p.hold(ctx)
	case waiting, clients, arriving:
		return p.wait(ctx)
	default:
		return p.useOnce(ctx)
	}
}

// found takes the first lock, before which some stores make what they need, and new
// servers of Redlock have to run for a while.
func (p *performer) found(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*p.TTL+30*time.Second)
	defer cancel()
	for last := error(nil); ; {
		c, err := p.open(ctx)
		if err == nil {
			var l *pawl.Lease
			if l, err = c.Mutex("scale/first").Lock(ctx); err == nil {
				err = l.Unlock()
			}
			err = errors.Join(err, c.Close())
		}
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return cmp.Or(last, err)
		}
		last = err
		rest(ctx, p.TTL/10)
	}
}

func (p *performer) open(ctx context.Context) (*pawl.Client, error) {
	return pawl.Open(ctx, p.url, pawl.WithTTL(p.TTL))
}

// hands is how many calls are under way at a time.
const hands = 256

// concurrently calls f for 0 to n-1 until one fails, and returns how many did not.
func concurrently(n int, f func(i int) error) (done int, err error) {
	var (
		group  sync.WaitGroup
		next   atomic.Int64
		good   atomic.Int64
		failed atomic.Pointer[error]
	)
	for range min(hands, n) {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && failed.Load() == nil; i = int(next.Add(1)) - 1 {
				if err := f(i); err != nil {
					failed.CompareAndSwap(nil, &err)
					return
				}
				good.Add(1)
			}
		})
	}
	group.Wait()
	if e := failed.Load(); e != nil {
		err = *e
	}
	return int(good.Load()), err
}

// rest waits for d, and reports whether ctx has not ended.
func rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// watchStalls notes the longest time for which this process did not run, until ctx ends.
func watchStalls(ctx context.Context) (longest func() time.Duration) {
	const tick = 10 * time.Millisecond
	var most atomic.Int64
	go func() { // ends with ctx
		for last := time.Now(); rest(ctx, tick); last = time.Now() {
			most.Store(max(most.Load(), int64(time.Since(last)-tick)))
		}
	}()
	return func() time.Duration { return time.Duration(most.Load()) }
}

// lost returns how many holds clients have lost.
func lost(all []*pawl.Client) (n int) {
	for _, c := range all {
		n += int(c.Stats().Lost)
	}
	return n
}
