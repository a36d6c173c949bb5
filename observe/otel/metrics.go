package otelpawl

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/observe"
)

// instruments are the metrics. Their names and units are such that the Prometheus exporter makes
// those of package prom of them.
type instruments struct {
	acquire, hold, renew metric.Float64Histogram
	lost, inDoubt        metric.Int64Counter
	held, waiting        metric.Int64ObservableUpDownCounter
	oldest               metric.Float64ObservableGauge
	leader               metric.Int64ObservableGauge
}

func newInstruments(m metric.Meter) (i instruments, err error) {
	histogram := func(to *metric.Float64Histogram, name, text string, buckets []float64) (err error) {
		*to, err = m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(text), metric.WithExplicitBucketBoundaries(buckets...))
		return err
	}
	counter := func(to *metric.Int64Counter, name, text string) (err error) {
		*to, err = m.Int64Counter(name, metric.WithDescription(text))
		return err
	}
	number := func(to *metric.Int64ObservableUpDownCounter, name, text string) (err error) {
		*to, err = m.Int64ObservableUpDownCounter(name, metric.WithDescription(text))
		return err
	}
	err = driver.Join(
		histogram(&i.acquire, "pawl.acquire", "How long acquires of locks took, by how they ended.", observe.AcquireBuckets),
		histogram(&i.hold, "pawl.hold", "How long locks were held, by how the hold ended.", observe.HoldBuckets),
		histogram(&i.renew, "pawl.renew", "Round trips of renewals of held locks.", observe.RenewBuckets),
		counter(&i.lost, "pawl.lost", "Leases that were lost, by cause."),
		counter(&i.inDoubt, "pawl.in_doubt", "Times that the store did not confirm a held lock."),
		number(&i.held, "pawl.held", "Leases that are held now."),
		number(&i.waiting, "pawl.waiting", "Acquires that wait for a lock now."),
	)
	if err != nil {
		return i, err
	}
	i.oldest, err = m.Float64ObservableGauge("pawl.oldest_wait", metric.WithUnit("s"),
		metric.WithDescription("How long the acquire that has waited longest has waited so far, 0 if none waits."))
	if err != nil {
		return i, err
	}
	i.leader, err = m.Int64ObservableGauge("leader_election_master_status",
		metric.WithDescription("Whether this process leads the election: 1 while it does, 0 if it campaigned or led before."))
	return i, err
}

// A series has what one class of names needs: its gauges, and attributes made once.
type series struct {
	name  string
	held  atomic.Int64
	waits observe.Waits

	class metric.MeasurementOption
	lost  [pawl.FixedTTL + 1]metric.MeasurementOption
	ends  [pawl.Refused + 1][pawl.Counted + 1]metric.MeasurementOption
}

// newSeries makes the attributes of a class, and its counters with 0.
func (o *Observer) newSeries(class string) *series {
	common := slices.Clone(o.attributes)
	if o.class != nil {
		common = append(common, attribute.String("class", class))
	}
	with := func(own ...attribute.KeyValue) metric.MeasurementOption {
		return metric.WithAttributeSet(attribute.NewSet(slices.Concat(common, own)...))
	}
	s := &series{name: class, class: with()}
	for _, cause := range observe.Causes {
		s.lost[cause] = with(label("cause", cause))
		o.lost.Add(context.Background(), 0, s.lost[cause])
	}
	o.inDoubt.Add(context.Background(), 0, s.class)
	for mode := pawl.Exclusive; mode <= pawl.Counted; mode++ {
		for _, kind := range []pawl.Kind{pawl.Acquired, pawl.HandedOver, pawl.GaveUp, pawl.Refused} {
			s.ends[kind][mode] = with(label("mode", mode), label("outcome", kind))
		}
		for _, kind := range []pawl.Kind{pawl.Released, pawl.Lost} {
			s.ends[kind][mode] = with(label("mode", mode), label("end", kind))
		}
	}
	return s
}

func label(key string, word fmt.Stringer) attribute.KeyValue {
	return attribute.String(key, observe.Label(word))
}

// collect reports how things stand.
func (o *Observer) collect(_ context.Context, to metric.Observer) error {
	for _, s := range o.classes.All() {
		to.ObserveInt64(o.held, s.held.Load(), s.class)
		to.ObserveInt64(o.waiting, int64(s.waits.Len()), s.class)
		to.ObserveFloat64(o.oldest, s.waits.Oldest().Seconds(), s.class)
	}
	for name, leads := range o.leads.All() {
		status := int64(0)
		if leads {
			status = 1
		}
		to.ObserveInt64(o.leader, status, metric.WithAttributes(append(slices.Clone(o.attributes), attribute.String("name", name))...))
	}
	return nil
}
