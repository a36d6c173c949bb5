// Package prom shows what happens to locks as Prometheus metrics.
//
//	metrics := prom.New()
//	prometheus.MustRegister(metrics)
//	c, err := pawl.Open(ctx, url, pawl.WithObserver(metrics))
//
// No metric has a lock's name as a label, because a program may use any number of names;
// [WithClass] adds a label of your choice. The metrics, with labels and meaning:
//
//	pawl_acquire_seconds{mode,outcome}   acquires that ended: acquired, handed_over, gave_up, refused
//	pawl_hold_seconds{mode,end}          holds that ended: released, lost
//	pawl_renew_seconds                   round trips of renewals
//	pawl_lost_total{cause}               leases that were lost
//	pawl_in_doubt_total                  times that the store did not confirm a hold
//	pawl_held                            leases that are held now
//	pawl_waiting                         acquires that wait now
//	pawl_oldest_wait_seconds             how long the oldest of them has waited so far
//	leader_election_master_status{name}  1 while this process leads, 0 if it campaigned or led before
//
// The last one is what Kubernetes' client-go calls it, so that alerts for it work.
//
// One observer serves any number of clients. For clients of several stores, make one observer
// for each, and register it with a label:
//
//	prometheus.WrapRegistererWith(prometheus.Labels{"store": "redis"}, registry).MustRegister(metrics)
package prom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/observe"
)

// An Observer is told of events and collected by Prometheus. It is safe to share.
type Observer struct {
	classes *observe.Classes[series]
	leads   observe.Leads

	acquire, hold, renew *prometheus.HistogramVec
	lost, inDoubt        *prometheus.CounterVec

	held, waiting, oldest, leader *prometheus.Desc
}

var (
	_ pawl.DirectObserver  = (*Observer)(nil)
	_ prometheus.Collector = (*Observer)(nil)
)

// An Option changes what New returns.
type Option func(*options)

type options struct{ class func(name string) string }

// WithClass adds the label class to every metric of locks, with what class returns for the
// lock's name, such as the part before the first slash. Each value is up to a few hundred time
// series that are never removed, so the values must be few. The function is called for every
// event, by several goroutines at once, and must return the same for the same name. A name for
// which it panics is of the class "invalid".
func WithClass(class func(name string) string) Option {
	return func(o *options) { o.class = class }
}

// New returns an observer that has seen nothing. It is registered as a collector, and given to
// clients by [pawl.WithObserver].
func New(opts ...Option) *Observer {
	var of options
	for _, opt := range opts {
		opt(&of)
	}
	labels := func(own ...string) []string {
		if of.class != nil {
			own = append(own, "class")
		}
		return own
	}
	histogram := func(name, help string, buckets []float64, own ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels(own...))
	}
	counter := func(name, help string, own ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels(own...))
	}
	gauge := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, labels(), nil) }
	o := &Observer{
		acquire: histogram("pawl_acquire_seconds", "How long acquires of locks took, by how they ended.", observe.AcquireBuckets, "mode", "outcome"),
		hold:    histogram("pawl_hold_seconds", "How long locks were held, by how the hold ended.", observe.HoldBuckets, "mode", "end"),
		renew:   histogram("pawl_renew_seconds", "Round trips of renewals of held locks.", observe.RenewBuckets),
		lost:    counter("pawl_lost_total", "Leases that were lost, by cause.", "cause"),
		inDoubt: counter("pawl_in_doubt_total", "Times that the store did not confirm a held lock."),
		held:    gauge("pawl_held", "Leases that are held now."),
		waiting: gauge("pawl_waiting", "Acquires that wait for a lock now."),
		oldest:  gauge("pawl_oldest_wait_seconds", "How long the acquire that has waited longest has waited so far, 0 if none waits."),
		leader: prometheus.NewDesc("leader_election_master_status",
			"Whether this process leads the election: 1 while it does, 0 if it campaigned or led before.", []string{"name"}, nil),
	}
	o.classes = observe.NewClasses(of.class, func(class string) *series {
		if of.class == nil {
			return o.newSeries()
		}
		return o.newSeries(class)
	})
	return o
}

// Direct marks a [pawl.DirectObserver]: Observe only counts.
func (o *Observer) Direct() {}

// Observe takes in an event. It does not allocate, except for the first event of its kind.
func (o *Observer) Observe(e pawl.Event) {
	s := o.classes.Of(e.Name)
	switch e.Kind {
	case pawl.Waiting:
		s.waits.Observe(e)
	case pawl.Acquired, pawl.HandedOver:
		s.held.Add(1)
		if e.Waited {
			s.waits.Observe(e)
		}
		s.ended(o.acquire, &e)
	case pawl.GaveUp, pawl.Refused:
		s.waits.Observe(e)
		s.ended(o.acquire, &e)
	case pawl.Released:
		s.held.Add(-1)
		s.ended(o.hold, &e)
	case pawl.Lost:
		s.held.Add(-1)
		s.ended(o.hold, &e)
		s.lost[e.Cause].Inc()
	case pawl.Renewed:
		s.renew.Observe(e.Took.Seconds())
	case pawl.InDoubt:
		s.inDoubt.Inc()
	}
	o.leads.Observe(e)
}

// Describe sends the metrics' descriptions.
func (o *Observer) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range o.collectors() {
		c.Describe(ch)
	}
	for _, d := range []*prometheus.Desc{o.held, o.waiting, o.oldest, o.leader} {
		ch <- d
	}
}

// Collect sends the metrics as they are now.
func (o *Observer) Collect(ch chan<- prometheus.Metric) {
	for _, c := range o.collectors() {
		c.Collect(ch)
	}
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for _, s := range o.classes.All() {
		gauge(o.held, float64(s.held.Load()), s.class...)
		gauge(o.waiting, float64(s.waits.Len()), s.class...)
		gauge(o.oldest, s.waits.Oldest().Seconds(), s.class...)
	}
	for name, leads := range o.leads.All() {
		value := 0.0
		if leads {
			value = 1
		}
		gauge(o.leader, value, name)
	}
}

func (o *Observer) collectors() []prometheus.Collector {
	return []prometheus.Collector{o.acquire, o.hold, o.renew, o.lost, o.inDoubt}
}
