package prom

import (
	"fmt"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/observe"
)

// A series has the metrics of one class, resolved once: to look one up by its labels takes
// longer than to observe a value.
type series struct {
	class []string // the value of the label class, or nothing
	held  atomic.Int64
	waits observe.Waits

	renew   prometheus.Observer
	inDoubt prometheus.Counter
	lost    [pawl.FixedTTL + 1]prometheus.Counter
	ends    [pawl.Refused + 1][pawl.Counted + 1]atomic.Pointer[histogram]
}

type histogram struct{ prometheus.Observer }

// newSeries makes the metrics of a class. Counters are there with 0 from the start. The
// histograms of acquires and holds, of which most programs use few, are made by their first event.
func (o *Observer) newSeries(class ...string) *series {
	s := &series{class: class, renew: o.renew.WithLabelValues(class...), inDoubt: o.inDoubt.WithLabelValues(class...)}
	for _, cause := range observe.Causes {
		s.lost[cause] = o.lost.WithLabelValues(s.labels(cause)...)
	}
	return s
}

// ended observes the end of an acquire or a hold.
func (s *series) ended(of *prometheus.HistogramVec, e *pawl.Event) {
	place := &s.ends[e.Kind][e.Mode]
	h := place.Load()
	if h == nil {
		h = &histogram{of.WithLabelValues(s.labels(e.Mode, e.Kind)...)}
		place.Store(h) // twice the same, if two events are the first
	}
	h.Observe(e.Took.Seconds())
}

// labels returns the values of labels, with that of the class if there is one.
func (s *series) labels(words ...fmt.Stringer) (values []string) {
	for _, word := range words {
		values = append(values, observe.Label(word))
	}
	return append(values, s.class...)
}
