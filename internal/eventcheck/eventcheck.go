// Package eventcheck runs a random workload with faults on every store and checks that
// its events come in pairs and that the numbers of its clients add up.
package eventcheck

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/recipetest"
)

const (
	ttl        = 3 * time.Second
	limit      = 3 * time.Minute
	clients    = 3
	goroutines = 4 // of each client
)

// Each runs the workload on every store, memory included. observe returns further
// observers of all clients of one store and what to check once these are closed; sum
// has the clients' numbers together.
func Each(t *testing.T, observe func(t *testing.T) (opts []pawl.Option, check func(t *testing.T, sum pawl.Stats))) {
	recipetest.OnMemory(t, func(t *testing.T, open recipetest.Opener) { run(t, open, nil, observe) })
	recipetest.EachShared(t, func(t *testing.T, s *recipetest.Store) {
		if !s.Served() {
			run(t, recipetest.On(s.URL), nil, observe)
			return
		}
		open, links := s.Through(t)
		run(t, open, links, observe)
	})
}

// running limits the stores on which the workload runs at once: beside tests that bound
// times.
var running = make(chan struct{}, 2)

func run(t *testing.T, open recipetest.Opener, links []*faultproxy.Proxy, observe func(*testing.T) ([]pawl.Option, func(*testing.T, pawl.Stats))) {
	running <- struct{}{}
	defer func() { <-running }()
	opts, check := observe(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var all []*pawl.Client
	var seen []*recorder
	var work sync.WaitGroup
	for i := range clients {
		seen = append(seen, &recorder{})
		c := open(t, append(opts, pawl.WithTTL(ttl), pawl.WithObserver(seen[i]))...)
		all = append(all, c)
		for j := range goroutines {
			w := worker{c: c, rnd: rand.New(rand.NewPCG(seed, uint64(i*goroutines+j)))}
			work.Go(func() { w.run(ctx) })
		}
	}
	f := faults{links: links, c: open(t), rnd: rand.New(rand.NewPCG(seed, 1000))}
	f.bring(ctx, func() bool { return missing(sumOf(all)) == "" })
	if err := f.loseAll(ctx, all); err != nil {
		t.Error(err)
	}
	pause(ctx, 300*time.Millisecond) // the work goes on
	cancel()
	work.Wait()
	for i, c := range all {
		if st := c.Stats(); st.WaitingNow != 0 {
			t.Errorf("nobody waits any more, and WaitingNow is %d", st.WaitingNow)
		}
		_ = c.Close() // some leases were left to it; the store may have lost them
		st := c.Stats()
		adds(t, st)
		seen[i].check(t, st)
	}
	sum := sumOf(all)
	t.Logf("%+v", sum)
	if kind := missing(sum); kind != "" || sum.Lost < clients {
		t.Errorf("the workload had no %s, and %d losses", kind, sum.Lost)
	}
	if check != nil {
		check(t, sum)
	}
}

// adds checks the numbers of a closed client.
func adds(t *testing.T, st pawl.Stats) {
	t.Helper()
	if st.Waiting != st.Waited+st.HandedOver+st.GaveUp || st.Acquired+st.HandedOver != st.Released+st.Lost || st.Unobserved != 0 {
		t.Errorf("it does not add up: %+v", st)
	}
	if st.WaitingNow != 0 || st.Held != 0 || st.Sessions != 0 || st.Departures != 0 {
		t.Errorf("a closed client still has something: %+v", st)
	}
}

// sumOf adds the counters of all clients.
func sumOf(all []*pawl.Client) (sum pawl.Stats) {
	for _, c := range all {
		st := c.Stats()
		sum.Waiting += st.Waiting
		sum.Waited += st.Waited
		sum.Acquired += st.Acquired
		sum.HandedOver += st.HandedOver
		sum.GaveUp += st.GaveUp
		sum.Refused += st.Refused
		sum.InDoubt += st.InDoubt
		sum.Renewed += st.Renewed
		sum.Released += st.Released
		sum.Lost += st.Lost
	}
	return sum
}

// missing names something that has not happened yet; "": everything has, losses apart.
func missing(sum pawl.Stats) string {
	switch {
	case sum.Waited == 0:
		return "Acquired after a wait"
	case sum.HandedOver == 0:
		return "HandedOver"
	case sum.GaveUp == 0:
		return "GaveUp"
	case sum.Refused == 0:
		return "Refused"
	case sum.Released < 50:
		return "more Released"
	}
	return ""
}
