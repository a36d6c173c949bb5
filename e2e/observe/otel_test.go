package observe_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/memlock"
	otelpawl "github.com/pawl-go/pawl/observe/otel"
)

// spans are the spans that an observer makes, in memory.
type spans struct {
	*tracetest.InMemoryExporter
	tracer trace.Tracer
}

func observeSpans(t *testing.T, opts ...otelpawl.Option) (*otelpawl.Observer, spans) {
	t.Helper()
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	t.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
	o, err := otelpawl.New(append(opts, otelpawl.WithTracerProvider(provider))...)
	if err != nil {
		t.Fatal(err)
	}
	return o, spans{exporter, provider.Tracer("test")}
}

// acquires waits for the spans of n acquires, and fails if there are more.
func (s spans) acquires(t *testing.T, n int) (all tracetest.SpanStubs) {
	t.Helper()
	await(t, "the spans", func() bool {
		all = nil
		for _, stub := range s.GetSpans() {
			if stub.Name == "pawl.acquire" {
				all = append(all, stub)
			}
		}
		return len(all) >= n
	})
	if len(all) > n {
		t.Fatalf("%d spans of acquires, want %d", len(all), n)
	}
	return all
}

// attributes returns a span's attributes by name.
func attributes(s tracetest.SpanStub) map[string]attribute.Value {
	all := map[string]attribute.Value{}
	for _, kv := range s.Attributes {
		all[string(kv.Key)] = kv.Value
	}
	return all
}

func expectAttributes(t *testing.T, s tracetest.SpanStub, want map[string]string, absent ...string) {
	t.Helper()
	all := attributes(s)
	for name, v := range want {
		if got, ok := all[name]; !ok || got.Emit() != v {
			t.Errorf("%s is %q (there: %v), want %q", name, got.Emit(), ok, v)
		}
	}
	for _, name := range absent {
		if v, ok := all[name]; ok {
			t.Errorf("%s is there: %q", name, v.Emit())
		}
	}
}

func TestAnAcquireIsASpanBelowItsCaller(t *testing.T) {
	t.Parallel()
	o, seen := observeSpans(t)
	c := openMemory(t, pawl.WithObserver(o))
	ctx, parent := seen.tracer.Start(t.Context(), "request")
	before := time.Now()
	lease, err := c.Semaphore("gpu", 4).Acquire(ctx, 3)
	if err != nil {
		t.Fatal(err)
	}
	after := time.Now()
	parent.End()
	got := seen.acquires(t, 1)[0]
	if got.Parent.SpanID() != parent.SpanContext().SpanID() || got.SpanContext.TraceID() != parent.SpanContext().TraceID() {
		t.Errorf("the parent is %v, want %v", got.Parent, parent.SpanContext())
	}
	if got.StartTime.Before(before) || got.EndTime.After(after) || !got.EndTime.After(got.StartTime) {
		t.Errorf("the span is from %v to %v, the call from %v to %v", got.StartTime, got.EndTime, before, after)
	}
	if got.Status.Code != codes.Unset {
		t.Errorf("the status is %v, want none", got.Status)
	}
	expectAttributes(t, got, map[string]string{
		"pawl.mode": "permits", "pawl.permits": "3", "pawl.store": "memory", "pawl.outcome": "acquired", "pawl.wait_seconds": "0",
	}, "pawl.name", "pawl.class", "error.type")
	if token := attributes(got)["pawl.token"].AsInt64(); uint64(token) != lease.Token() {
		t.Errorf("the token is %d, want %d", token, lease.Token())
	}
	if err := lease.Unlock(); err != nil {
		t.Fatal(err)
	}
	if n := len(seen.GetSpans()); n != 2 {
		t.Errorf("%d spans after the hold, want the acquire's and the request's", n)
	}
}

func TestAWaitIsSeenInItsSpan(t *testing.T) {
	t.Parallel()
	o, seen := observeSpans(t, otelpawl.WithName(), otelpawl.WithClass(func(name string) string { return strings.ToUpper(name) }))
	waiting := make(chan struct{})
	c := openMemory(t, pawl.WithObserver(o), pawl.WithObserver(tellWaiting(waiting)))
	first, err := c.Mutex("a").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error)
	go func() { // ends with the second lock
		l, err := c.Mutex("a").Lock(t.Context())
		if err == nil {
			err = l.Unlock()
		}
		got <- err
	}()
	<-waiting
	since := time.Now()
	time.Sleep(10 * time.Millisecond) // the hold that is waited for
	waited := time.Since(since)
	if err := first.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	second := seen.acquires(t, 2)[1]
	expectAttributes(t, second, map[string]string{"pawl.mode": "exclusive", "pawl.name": "a", "pawl.class": "A"}, "pawl.permits")
	// A turn in the process is over after 20 ms; then the lock goes by way of the store.
	if outcome := attributes(second)["pawl.outcome"].Emit(); outcome != "handed_over" && outcome != "acquired" {
		t.Errorf("the outcome is %q", outcome)
	}
	if s := attributes(second)["pawl.wait_seconds"].AsFloat64(); s < waited.Seconds() || second.EndTime.Sub(second.StartTime) < waited {
		t.Errorf("it waited %v s in a span of %v, want at least %v", s, second.EndTime.Sub(second.StartTime), waited)
	}
}

func TestTheStatusTellsAFaultFromAnAnswer(t *testing.T) {
	t.Parallel()
	o, seen := observeSpans(t)
	c := openMemory(t, pawl.WithObserver(o))
	if _, err := c.Mutex("a").Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Mutex("a").TryLock(t.Context()); !errors.Is(err, pawl.ErrHeld) {
		t.Fatal(err)
	}
	if _, err := c.Mutex("a", pawl.WithWait(time.Millisecond)).Lock(t.Context()); !errors.Is(err, pawl.ErrHeld) {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	whenWaiting := pawl.WithObserver(pawl.ObserverFunc(func(e pawl.Event) {
		if e.Kind == pawl.Waiting {
			cancel()
		}
	}))
	if _, err := c.Mutex("a", whenWaiting).Lock(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	want := []struct {
		outcome, errorType string
		status             codes.Code
	}{
		{"acquired", "", codes.Unset},
		{"refused", "held", codes.Unset},
		{"gave_up", "held", codes.Error},
		{"gave_up", "canceled", codes.Error},
	}
	all := seen.acquires(t, len(want))
	for i, w := range want {
		s, a := all[i], attributes(all[i])
		if a["pawl.outcome"].Emit() != w.outcome || a["error.type"].Emit() != w.errorType && w.errorType != "" || s.Status.Code != w.status {
			t.Errorf("span %d: %s, %s, %v, want %v", i, a["pawl.outcome"].Emit(), a["error.type"].Emit(), s.Status, w)
		}
		if (s.Status.Description != "") != (w.status == codes.Error) {
			t.Errorf("span %d: the description is %q", i, s.Status.Description)
		}
	}
}

func TestAStoreThatIsGoneIsAnErrorInTheSpan(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t)
	o, seen := observeSpans(t)
	c, err := pawl.Open(t.Context(), "redis://"+redis.Addr(), pawl.WithObserver(o), pawl.WithTTL(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	redis.Kill()
	if _, err := c.Mutex("a").TryLock(t.Context()); !errors.Is(err, pawl.ErrUnreachable) {
		t.Fatalf("the error is %v, want ErrUnreachable", err)
	}
	got := seen.acquires(t, 1)[0]
	expectAttributes(t, got, map[string]string{"pawl.store": "redis", "pawl.outcome": "refused", "error.type": "unreachable"}, "pawl.token")
	if got.Status.Code != codes.Error || got.Status.Description == "" {
		t.Errorf("the status is %v, want an error with a description", got.Status)
	}
}

func openMemory(t *testing.T, opts ...pawl.Option) *pawl.Client {
	t.Helper()
	c := pawl.New(memlock.New(), opts...)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// tellWaiting closes a channel at the first Waiting.
func tellWaiting(ch chan struct{}) pawl.Observer {
	return pawl.ObserverFunc(func(e pawl.Event) {
		if e.Kind == pawl.Waiting {
			close(ch)
		}
	})
}
