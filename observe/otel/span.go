package otelpawl

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/observe"
)

// span makes the span of an acquire that has ended. The context it returns has the span, so that
// a histogram's exemplar refers to it.
func (o *Observer) span(e pawl.Event, s *series) context.Context {
	parent, end := e.Context, e.Time
	if parent == nil {
		parent = context.Background()
	}
	if end.IsZero() {
		end = time.Now()
	}
	// All attributes are there from the start, for samplers to see.
	ctx, span := o.tracer.Start(parent, "pawl.acquire",
		trace.WithTimestamp(end.Add(-e.Took)), trace.WithAttributes(o.spanAttributes(e, s)...))
	if e.Err != nil && !answered(e) {
		span.SetStatus(codes.Error, driver.OneLine(e.Err.Error()))
	}
	span.End(trace.WithTimestamp(end))
	return ctx
}

// answered reports whether an acquire did not get the lock because it asked to be told so: a try.
// A wait that gave up is a fault, even if its limit was chosen: the work was not done. So is a store
// that did not answer in time, which is ErrHeld too, but no HeldError.
func answered(e pawl.Event) bool {
	held, ok := errors.AsType[*pawl.HeldError](e.Err)
	return e.Kind == pawl.Refused && ok && errors.Is(held, pawl.ErrHeld) && !errors.Is(e.Err, pawl.ErrUnreachable)
}

func (o *Observer) spanAttributes(e pawl.Event, s *series) []attribute.KeyValue {
	all := append(make([]attribute.KeyValue, 0, 9+len(o.attributes)),
		attribute.String("pawl.mode", observe.Label(e.Mode)),
		attribute.String("pawl.store", e.Store),
		attribute.String("pawl.outcome", observe.Label(e.Kind)),
		attribute.Float64("pawl.wait_seconds", waited(e).Seconds()))
	if e.Mode == pawl.Counted {
		all = append(all, attribute.Int("pawl.permits", e.Permits))
	}
	if e.Token != 0 {
		all = append(all, attribute.Int64("pawl.token", int64(e.Token))) // below 2⁶³
	}
	if o.class != nil {
		all = append(all, attribute.String("pawl.class", s.name))
	}
	if o.named {
		all = append(all, attribute.String("pawl.name", e.Name))
	}
	if e.Err != nil {
		all = append(all, attribute.String("error.type", errorType(e.Err)))
	}
	return append(all, o.attributes...)
}

// waited returns how long an acquire waited, with the call that found the lock held.
func waited(e pawl.Event) time.Duration {
	if e.Waited || e.Kind == pawl.GaveUp {
		return e.Took
	}
	return 0
}

// errorType returns a word for each error that a program may want to tell apart; the order is
// that of what matters more.
func errorType(err error) string {
	for _, known := range []struct {
		is   error
		word string
	}{
		{pawl.ErrUnreachable, "unreachable"},
		{pawl.ErrDenied, "denied"},
		{pawl.ErrClosed, "closed"},
		{context.Canceled, "canceled"},
		{context.DeadlineExceeded, "deadline_exceeded"},
		{pawl.ErrHeld, "held"},
	} {
		if errors.Is(err, known.is) {
			return known.word
		}
	}
	return "_OTHER" // what the semantic conventions call it
}
