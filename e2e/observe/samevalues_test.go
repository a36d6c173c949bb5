package observe_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/election"
	otelpawl "github.com/pawl-go/pawl/observe/otel"
	"github.com/pawl-go/pawl/observe/prom"
)

// All observers see the same: prom, otel through the exporter for Prometheus, otel through a
// reader of the SDK, and the client's own Stats.
func TestPromOtelAndStatsAgree(t *testing.T) {
	t.Parallel()
	o := observeAll(t)
	waiting := make(chan struct{})
	c := openMemory(t, append(o.options(), pawl.WithObserver(tellWaiting(waiting)))...)
	stop := everyKind(t, c, waiting)
	o.awaitSame(t, "while one waits")
	stop()
	o.awaitSame(t, "at the end")
	expectTotals(t, metrics(t, o.fromProm), c.Stats())
	var data metricdata.ResourceMetrics
	if err := o.reader.Collect(t.Context(), &data); err != nil {
		t.Fatal(err)
	}
	checkReader(t, data, c.Stats())
}

// allObservers are prom and otel for the same clients, with classes.
type allObservers struct {
	prom               *prom.Observer
	otel               *otelpawl.Observer
	fromProm, fromOtel *prometheus.Registry
	reader             *sdkmetric.ManualReader
}

func observeAll(t *testing.T) (o allObservers) {
	t.Helper()
	byPart := func(name string) string { class, _, _ := strings.Cut(name, "/"); return class }
	o.prom = prom.New(prom.WithClass(byPart))
	o.fromProm = prometheus.NewPedanticRegistry()
	o.fromProm.MustRegister(o.prom)

	o.fromOtel = prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(o.fromOtel), otelprometheus.WithoutScopeInfo(), otelprometheus.WithoutTargetInfo())
	if err != nil {
		t.Fatal(err)
	}
	o.reader = sdkmetric.NewManualReader()
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter), sdkmetric.WithReader(o.reader))
	t.Cleanup(func() { _ = meters.Shutdown(context.Background()) })
	if o.otel, err = otelpawl.New(otelpawl.WithMeterProvider(meters), otelpawl.WithClass(byPart)); err != nil {
		t.Fatal(err)
	}
	return o
}

func (o allObservers) options() []pawl.Option {
	return []pawl.Option{pawl.WithObserver(o.prom), pawl.WithObserver(o.otel)}
}

// expectTotals compares metrics, added up over their labels, with the numbers of clients.
func expectTotals(t *testing.T, got map[string]string, stats pawl.Stats) {
	t.Helper()
	for name, want := range map[string]float64{
		"pawl_held": float64(stats.Held), "pawl_waiting": float64(stats.WaitingNow), "pawl_lost_total": float64(stats.Lost),
		"pawl_in_doubt_total": float64(stats.InDoubt), "pawl_renew_seconds": float64(stats.Renewed),
		"pawl_acquire_seconds": float64(stats.Acquired + stats.HandedOver + stats.GaveUp + stats.Refused),
		"pawl_hold_seconds":    float64(stats.Released + stats.Lost),
	} {
		if sum := total(got, name); sum != want {
			t.Errorf("%s is %v in all, and %v in Stats", name, sum, want)
		}
	}
}

// everyKind makes events of every kind but those of a fault, and returns while one acquire waits.
func everyKind(t *testing.T, c *pawl.Client, waiting <-chan struct{}) (stop func()) {
	t.Helper()
	held, err := c.Mutex("orders/1").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Mutex("orders/1").TryLock(t.Context()); err == nil {
		t.Fatal("a held lock was given twice")
	}
	short, err := c.RWMutex("reports/1", pawl.WithMaxHold(20*time.Millisecond)).RLock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	<-short.Context().Done()
	leads, err := election.New(c, "scheduler").Campaign(t.Context(), "here")
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the loss", func() bool { return c.Stats().Lost == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { // ends with cancel
		defer close(ended)
		_, _ = c.Mutex("orders/1").Lock(ctx)
	}()
	<-waiting
	return func() {
		cancel()
		<-ended
		if err := held.Unlock(); err != nil {
			t.Error(err)
		}
		if err := leads.Resign(); err != nil {
			t.Error(err)
		}
	}
}

// metrics returns what a registry has, by name and labels; of a histogram the number of
// observations, and its buckets' bounds.
func metrics(t *testing.T, from prometheus.Gatherer) map[string]string {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			all[fmt.Sprintf("%s%v", f.GetName(), labels)] = show(f, m)
		}
	}
	return all
}

func show(f *dto.MetricFamily, m *dto.Metric) string {
	switch {
	case f.GetName() == "pawl_oldest_wait_seconds": // it grows between two reads
		return fmt.Sprint(f.GetType(), " more than 0: ", m.Gauge.GetValue() > 0)
	case m.Counter != nil:
		return fmt.Sprint(f.GetType(), " ", m.Counter.GetValue())
	case m.Gauge != nil:
		return fmt.Sprint(f.GetType(), " ", m.Gauge.GetValue())
	}
	var bounds []float64
	for _, b := range m.Histogram.Bucket {
		bounds = append(bounds, b.GetUpperBound())
	}
	return fmt.Sprint(f.GetType(), " ", m.Histogram.GetSampleCount(), " ", bounds)
}

// awaitSame waits until both observers show the same, and fails if they never do: otel is told of
// events by a goroutine of its own.
func (o allObservers) awaitSame(t *testing.T, when string) {
	t.Helper()
	var differ []string
	for begun := time.Now(); time.Since(begun) < limit; time.Sleep(20 * time.Millisecond) {
		if differ = differences(metrics(t, o.fromProm), metrics(t, o.fromOtel)); len(differ) == 0 {
			return
		}
	}
	for _, d := range differ {
		t.Errorf("%s: %s", when, d)
	}
}

// differences returns where two sets of metrics differ. A histogram that has seen nothing may be
// absent: OpenTelemetry knows none.
func differences(prom, otel map[string]string) (all []string) {
	names := slices.Sorted(maps.Keys(prom))
	for name := range otel {
		if _, ok := prom[name]; !ok {
			names = append(names, name)
		}
	}
	for _, name := range names {
		p, o := prom[name], otel[name]
		if p != o && !(o == "" && strings.HasPrefix(p, "HISTOGRAM 0 ")) {
			all = append(all, fmt.Sprintf("%s is %q from prom and %q from otel", name, p, o))
		}
	}
	return all
}

// total adds up the values of a metric.
func total(all map[string]string, name string) (sum float64) {
	for key, shown := range all {
		if !strings.HasPrefix(key, name+"[") {
			continue
		}
		var kind string
		var v float64
		if _, err := fmt.Sscan(shown, &kind, &v); err == nil {
			sum += v
		}
	}
	return sum
}

// checkReader compares what an SDK's reader sees with Stats.
func checkReader(t *testing.T, data metricdata.ResourceMetrics, stats pawl.Stats) {
	t.Helper()
	got := map[string]float64{}
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					got[m.Name] += float64(p.Count)
				}
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					got[m.Name] += float64(p.Value)
				}
			}
		}
	}
	want := map[string]float64{
		"pawl.acquire": float64(stats.Acquired + stats.HandedOver + stats.GaveUp + stats.Refused),
		"pawl.hold":    float64(stats.Released + stats.Lost),
		"pawl.lost":    float64(stats.Lost), "pawl.in_doubt": float64(stats.InDoubt),
		"pawl.held": float64(stats.Held), "pawl.waiting": float64(stats.WaitingNow),
	}
	if stats.Renewed > 0 {
		want["pawl.renew"] = float64(stats.Renewed)
	}
	if !maps.Equal(got, want) {
		t.Errorf("the reader sees %v, want %v", got, want)
	}
}
