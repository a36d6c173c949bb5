// Package otelpawl shows what happens to locks as OpenTelemetry spans and metrics. It uses
// the API alone; the program chooses the SDK.
//
//	observer, err := otelpawl.New()
//	c, err := pawl.Open(ctx, url, pawl.WithObserver(observer))
//
// Every acquire is one span, pawl.acquire, from its call to its end, below the span of the
// acquiring call's context. A hold has no span: it may last for days, and its work has spans of
// its own. The attributes of the span:
//
//	pawl.mode          exclusive, shared, permits
//	pawl.permits       of a semaphore
//	pawl.store         redis, postgres …
//	pawl.outcome       acquired, handed_over, gave_up, refused
//	pawl.token         of the hold, if it was granted
//	pawl.wait_seconds  0 if the lock was free
//	pawl.class         by WithClass
//	pawl.name          only by WithName
//	error.type         of gave_up and refused
//
// The status is Error if the acquire gave up or was refused, except for a try that found the lock
// held, which is an answer and not a fault.
//
// The metrics are those of package prom. The Prometheus exporter gives them the same names and
// labels, so the same dashboard and alerts work.
package otelpawl

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/observe"
)

const scope = "github.com/pawl-go/pawl/observe/otel"

// An Observer is told of events, and makes spans and metrics of them. It is safe to share.
type Observer struct {
	options
	tracer trace.Tracer
	instruments
	classes  *observe.Classes[series]
	leads    observe.Leads
	callback metric.Registration
}

var _ pawl.Observer = (*Observer)(nil)

// An Option changes what New returns.
type Option func(*options)

type options struct {
	tracers    trace.TracerProvider
	meters     metric.MeterProvider
	class      func(name string) string
	named      bool
	attributes []attribute.KeyValue
}

// WithTracerProvider uses this provider instead of the global one.
func WithTracerProvider(p trace.TracerProvider) Option { return func(o *options) { o.tracers = p } }

// WithMeterProvider uses this provider instead of the global one.
func WithMeterProvider(p metric.MeterProvider) Option { return func(o *options) { o.meters = p } }

// WithClass adds the class of the lock's name to spans, as pawl.class, and to metrics, as class:
// what class returns, such as the part of the name before the first slash. In metrics each value
// is many time series, so the values must be few. The function is called for every event, by
// several goroutines at once, and must return the same for the same name. A name for which it
// panics is of the class "invalid".
func WithClass(class func(name string) string) Option { return func(o *options) { o.class = class } }

// WithName adds the lock's name to spans, as pawl.name, and never to metrics.
func WithName() Option { return func(o *options) { o.named = true } }

// WithAttributes adds attributes to all spans and metrics, such as the store's name in a program
// that has several.
func WithAttributes(attributes ...attribute.KeyValue) Option {
	return func(o *options) { o.attributes = append(o.attributes, attributes...) }
}

// New returns an observer, to be given to clients by [pawl.WithObserver].
func New(opts ...Option) (*Observer, error) {
	o := &Observer{}
	for _, opt := range opts {
		opt(&o.options)
	}
	if o.tracers == nil {
		o.tracers = otel.GetTracerProvider()
	}
	if o.meters == nil {
		o.meters = otel.GetMeterProvider()
	}
	o.tracer = o.tracers.Tracer(scope)
	meter := o.meters.Meter(scope)
	var err error
	if o.instruments, err = newInstruments(meter); err != nil {
		return nil, err
	}
	o.classes = observe.NewClasses(o.class, o.newSeries)
	o.callback, err = meter.RegisterCallback(o.collect, o.held, o.waiting, o.oldest, o.leader)
	if err != nil {
		return nil, err
	}
	return o, nil
}

// Close ends the metrics that are read at each collection: held, waiting, the oldest wait and
// elections. Spans and the other metrics go on.
func (o *Observer) Close() error { return o.callback.Unregister() }

// Observe takes in an event.
func (o *Observer) Observe(e pawl.Event) {
	s := o.classes.Of(e.Name)
	ctx := context.Background()
	took := e.Took.Seconds()
	s.waits.Observe(e)
	o.leads.Observe(e)
	switch e.Kind {
	case pawl.Acquired, pawl.HandedOver:
		s.held.Add(1)
		o.acquire.Record(o.span(e, s), took, s.ends[e.Kind][e.Mode])
	case pawl.GaveUp, pawl.Refused:
		o.acquire.Record(o.span(e, s), took, s.ends[e.Kind][e.Mode])
	case pawl.Released, pawl.Lost:
		s.held.Add(-1)
		o.hold.Record(ctx, took, s.ends[e.Kind][e.Mode])
		if e.Kind == pawl.Lost {
			o.lost.Add(ctx, 1, s.lost[e.Cause])
		}
	case pawl.Renewed:
		o.renew.Record(ctx, took, s.class)
	case pawl.InDoubt:
		o.inDoubt.Add(ctx, 1, s.class)
	}
}
