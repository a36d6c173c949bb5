package observe_test

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	_ "github.com/pawl-go/pawl/engines" // registers the schemes
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/observe/prom"
)

func TestRulesAreSoundAndKeepTheirTests(t *testing.T) {
	t.Parallel()
	if out, err := promtool(t, nil, "check", "rules", folder+"alerts/pawl.rules.yml"); err != nil {
		t.Errorf("promtool check rules: %v\n%s", err, out)
	}
	if out, err := promtool(t, nil, "test", "rules", folder+"alerts/pawl.rules.test.yml"); err != nil {
		t.Errorf("promtool test rules: %v\n%s", err, out)
	}
}

// A lease on a real Redis that is killed: the alerts fire in a real Prometheus, and not before.
func TestAnAlertFiresWhenALeaseIsLostAndNotBefore(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t)
	o := prom.New()
	p := startPrometheus(t, serveMetrics(t, o))
	c, err := pawl.Open(t.Context(), "redis://"+redis.Addr(), pawl.WithObserver(o), pawl.WithTTL(15*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	lease, err := c.Mutex("orders/42").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	await(t, "a scrape that has the lease", func() bool {
		held, err := p.query(t.Context(), "pawl_held == 1")
		if err != nil {
			t.Fatal(err)
		}
		return len(held) == 1
	})
	p.evaluated(t)
	if firing := p.alerts(t); len(firing) > 0 {
		t.Errorf("these fire before the server is killed (%+v): %v", c.Stats(), firing)
	}

	redis.Kill()
	<-lease.Context().Done()
	var firing map[string]alert
	await(t, "the alerts", func() bool {
		firing = p.alerts(t)
		_, lost := firing["PawlLeaseLost"]
		_, doubt := firing["PawlInDoubt"]
		return lost && doubt
	})
	if got := firing["PawlLeaseLost"]; got.Labels["cause"] != "not_renewed" || got.Labels["severity"] != "critical" || got.Annotations["summary"] == "" {
		t.Errorf("the alert is %+v, want the cause not_renewed and a summary", got)
	}
	if a, ok := firing["PawlOldestWait"]; ok {
		t.Errorf("an alert fires though nothing waits: %+v", a)
	}
}
