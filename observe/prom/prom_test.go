package prom_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/election"
	"github.com/pawl-go/pawl/memlock"
	"github.com/pawl-go/pawl/observe/prom"
)

// gather returns the values of an observer by name and labels, as pawl_lost_total{cause=broken};
// of a histogram the number of its observations.
func gather(t testing.TB, o prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(o); err != nil {
		t.Fatal(err)
	}
	return values(t, registry)
}

func values(t testing.TB, from prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			all[f.GetName()+labels(m)] = value(m)
		}
	}
	return all
}

func labels(m *dto.Metric) string {
	var all []string
	for _, l := range m.Label {
		all = append(all, l.GetName()+"="+l.GetValue())
	}
	if len(all) == 0 {
		return ""
	}
	return "{" + strings.Join(all, ",") + "}"
}

func value(m *dto.Metric) float64 {
	switch {
	case m.Counter != nil:
		return m.Counter.GetValue()
	case m.Gauge != nil:
		return m.Gauge.GetValue()
	}
	return float64(m.Histogram.GetSampleCount())
}

// expect fails if a value is not as wanted; one that is absent is not 0.
func expect(t testing.TB, all map[string]float64, want map[string]float64) {
	t.Helper()
	for name, v := range want {
		if got, ok := all[name]; !ok || got != v {
			t.Errorf("%s is %v (there: %v), want %v; all there is: %v", name, got, ok, v, slices.Sorted(maps.Keys(all)))
		}
	}
}

func open(t testing.TB, engine *memlock.Engine, opts ...pawl.Option) *pawl.Client {
	c := pawl.New(engine, opts...)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func lock(t testing.TB, m *pawl.Mutex) *pawl.Lease {
	t.Helper()
	l, err := m.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

var nothingYet = map[string]float64{
	"pawl_held": 0, "pawl_waiting": 0, "pawl_oldest_wait_seconds": 0, "pawl_in_doubt_total": 0, "pawl_renew_seconds": 0,
	"pawl_lost_total{cause=not_renewed}": 0, "pawl_lost_total{cause=session_ended}": 0, "pawl_lost_total{cause=broken}": 0,
	"pawl_lost_total{cause=maximum_hold}": 0, "pawl_lost_total{cause=fixed_ttl}": 0,
}

func TestMetricsAreThereBeforeTheFirstEvent(t *testing.T) {
	t.Parallel()
	if all := gather(t, prom.New()); !maps.Equal(all, nothingYet) {
		t.Fatalf("got %v, want %v", all, nothingYet)
	}
}

func TestALockIsSeenFromItsWaitToItsEnd(t *testing.T) {
	t.Parallel()
	o := prom.New()
	waiting := make(chan struct{})
	c := open(t, memlock.New(), pawl.WithObserver(o), pawl.WithObserver(pawl.ObserverFunc(func(e pawl.Event) {
		if e.Kind == pawl.Waiting {
			close(waiting)
		}
	})))
	first := lock(t, c.Mutex("a"))
	expect(t, gather(t, o), map[string]float64{"pawl_held": 1, "pawl_waiting": 0, "pawl_acquire_seconds{mode=exclusive,outcome=acquired}": 1})
	if _, err := c.Mutex("a").TryLock(t.Context()); !errors.Is(err, pawl.ErrHeld) {
		t.Fatal(err)
	}
	begun := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error)
	go func() { _, err := c.Mutex("a").Lock(ctx); gaveUp <- err }() // ends with cancel
	<-waiting
	seen := gather(t, o)
	expect(t, seen, map[string]float64{"pawl_held": 1, "pawl_waiting": 1, "pawl_acquire_seconds{mode=exclusive,outcome=refused}": 1})
	if oldest := seen["pawl_oldest_wait_seconds"]; oldest <= 0 || oldest > time.Since(begun).Seconds() {
		t.Errorf("the oldest wait is %v s, want more than 0 and at most %v", oldest, time.Since(begun))
	}
	cancel()
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := first.Unlock(); err != nil {
		t.Fatal(err)
	}
	expect(t, gather(t, o), map[string]float64{
		"pawl_held": 0, "pawl_waiting": 0, "pawl_oldest_wait_seconds": 0,
		"pawl_acquire_seconds{mode=exclusive,outcome=gave_up}": 1, "pawl_hold_seconds{end=released,mode=exclusive}": 1,
	})
}

func TestModesAndLossesHaveLabels(t *testing.T) {
	t.Parallel()
	o := prom.New()
	c := open(t, memlock.New(), pawl.WithObserver(o))
	reader, err := c.RWMutex("r").RLock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Semaphore("s", 4).Acquire(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if err := reader.Unlock(); err != nil {
		t.Fatal(err)
	}
	short := lock(t, c.Mutex("short", pawl.WithMaxHold(20*time.Millisecond)))
	<-short.Context().Done()
	want := map[string]float64{
		"pawl_acquire_seconds{mode=shared,outcome=acquired}": 1, "pawl_acquire_seconds{mode=permits,outcome=acquired}": 1,
		"pawl_hold_seconds{end=released,mode=shared}": 1, "pawl_hold_seconds{end=lost,mode=exclusive}": 1,
		"pawl_lost_total{cause=maximum_hold}": 1, "pawl_lost_total{cause=broken}": 0, "pawl_held": 1,
	}
	awaitValue(t, o, "pawl_lost_total{cause=maximum_hold}", 1)
	expect(t, gather(t, o), want)
}

// awaitValue waits for what the client tells in the background.
func awaitValue(t testing.TB, o prometheus.Collector, name string, want float64) {
	t.Helper()
	for begun := time.Now(); gather(t, o)[name] != want; time.Sleep(time.Millisecond) {
		if time.Since(begun) > 30*time.Second {
			t.Fatalf("%s is %v after 30 s, want %v", name, gather(t, o)[name], want)
		}
	}
}

func TestRenewalsAreObserved(t *testing.T) {
	t.Parallel()
	o := prom.New()
	c := open(t, memlock.New(), pawl.WithObserver(o), pawl.WithTTL(3*time.Second))
	l := lock(t, c.Mutex("a"))
	for begun := time.Now(); gather(t, o)["pawl_renew_seconds"] == 0; time.Sleep(time.Millisecond) {
		if time.Since(begun) > 30*time.Second {
			t.Fatalf("no renewal in 30 s; the lease: %v", l.Err())
		}
	}
}

func TestAnElectionHasTheStatusThatAlertsKnow(t *testing.T) {
	t.Parallel()
	o := prom.New()
	c := open(t, memlock.New(), pawl.WithObserver(o))
	leads, err := election.New(c, "scheduler").Campaign(t.Context(), "us")
	if err != nil {
		t.Fatal(err)
	}
	expect(t, gather(t, o), map[string]float64{"leader_election_master_status{name=scheduler}": 1})
	if err := leads.Resign(); err != nil {
		t.Fatal(err)
	}
	expect(t, gather(t, o), map[string]float64{"leader_election_master_status{name=scheduler}": 0})
}

func TestAClassBecomesALabelAndAPanicOfItDoesNoHarm(t *testing.T) {
	t.Parallel()
	o := prom.New(prom.WithClass(func(name string) string {
		class, _, ok := strings.Cut(name, "/")
		if !ok {
			panic("no class: " + name)
		}
		return class
	}))
	c := open(t, memlock.New(), pawl.WithObserver(o))
	for _, name := range []string{"orders/1", "orders/2", "odd"} {
		lock(t, c.Mutex(name))
	}
	expect(t, gather(t, o), map[string]float64{
		"pawl_held{class=orders}": 2, "pawl_held{class=invalid}": 1, "pawl_waiting{class=orders}": 0,
		"pawl_acquire_seconds{class=orders,mode=exclusive,outcome=acquired}": 2,
		"pawl_lost_total{cause=broken,class=orders}":                         0, "pawl_lost_total{cause=broken,class=invalid}": 0,
	})
	if n := c.Stats().Unobserved; n != 0 {
		t.Errorf("%d events were not observed", n)
	}
}

func TestSeveralStoresAreToldApartByALabel(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	for _, store := range []string{"one", "two"} {
		o := prom.New()
		prometheus.WrapRegistererWith(prometheus.Labels{"store": store}, registry).MustRegister(o)
		lock(t, open(t, memlock.New(), pawl.WithObserver(o)).Mutex("a"))
	}
	expect(t, values(t, registry), map[string]float64{"pawl_held{store=one}": 1, "pawl_held{store=two}": 1})
}
