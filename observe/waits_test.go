package observe

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
)

// at returns an event of an acquire that began at one time and is told at another.
func at(kind pawl.Kind, began, told time.Time) pawl.Event {
	return pawl.Event{Kind: kind, Time: told, Took: told.Sub(began), Waited: kind != pawl.Waiting}
}

func TestWaitsAgreeWithASortedListOfBegins(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	ends := []pawl.Kind{pawl.Acquired, pawl.HandedOver, pawl.GaveUp}
	var w Waits
	var model []time.Time
	now := time.Now().Add(-time.Hour)
	for range 20_000 {
		now = now.Add(time.Duration(1 + r.IntN(1000)))
		if r.IntN(2) == 0 && len(model) < 100 || len(model) == 0 {
			began := now.Add(-time.Duration(r.IntN(50_000))) // told a little late, so not in order
			if slices.Contains(model, began) {
				continue
			}
			w.Observe(at(pawl.Waiting, began, now))
			model = append(model, began)
		} else {
			i := r.IntN(len(model))
			if r.IntN(3) > 0 { // mostly the oldest
				i = slices.IndexFunc(model, func(m time.Time) bool { return m.Equal(slices.MinFunc(model, time.Time.Compare)) })
			}
			w.Observe(at(ends[r.IntN(3)], model[i], now))
			model = slices.Delete(model, i, i+1)
		}
		if w.Len() != len(model) {
			t.Fatalf("%d wait, want %d", w.Len(), len(model))
		}
		if len(model) > 0 {
			if got, want := start.Add(time.Duration(w.begun[w.head])), slices.MinFunc(model, time.Time.Compare); got.Sub(want) != 0 {
				t.Fatalf("the oldest began at %v, want %v", got, want)
			}
		}
	}
}

func TestTheOldestWaitGrowsAndEndsAtZero(t *testing.T) {
	t.Parallel()
	var w Waits
	if w.Oldest() != 0 {
		t.Fatalf("nobody waits, and the oldest wait is %v", w.Oldest())
	}
	hourAgo := time.Now().Add(-time.Hour)
	w.Observe(at(pawl.Waiting, time.Now(), time.Now()))
	w.Observe(at(pawl.Waiting, hourAgo, hourAgo))
	first := w.Oldest()
	if first < time.Hour || w.Oldest() < first {
		t.Fatalf("the oldest wait is %v and then %v, want at least an hour, growing", first, w.Oldest())
	}
	w.Observe(at(pawl.HandedOver, hourAgo, time.Now()))
	if w.Oldest() >= time.Hour {
		t.Fatalf("the oldest wait is %v, though that one has ended", w.Oldest())
	}
	w.Observe(at(pawl.GaveUp, time.Now(), time.Now()))
	w.Observe(at(pawl.GaveUp, time.Now(), time.Now())) // whose Waiting nobody saw
	if w.Oldest() != 0 || w.Len() != 0 {
		t.Fatalf("%d wait, the oldest for %v, want none", w.Len(), w.Oldest())
	}
}

func TestAnAcquireThatDidNotWaitEndsNoWait(t *testing.T) {
	t.Parallel()
	var w Waits
	w.Observe(pawl.Event{Kind: pawl.Waiting})
	for _, kind := range []pawl.Kind{pawl.Acquired, pawl.Refused, pawl.Released, pawl.Renewed, pawl.InDoubt, pawl.Lost} {
		w.Observe(pawl.Event{Kind: kind})
	}
	if w.Len() != 1 {
		t.Fatalf("%d wait, want 1", w.Len())
	}
}
