package observe_test

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/election"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/memlock"
	"github.com/pawl-go/pawl/observe/prom"
)

// everyMetric makes events of each metric on a client in memory.
func everyMetric(t *testing.T, observer pawl.Observer) {
	t.Helper()
	c := pawl.New(memlock.New(), pawl.WithObserver(observer))
	t.Cleanup(func() { _ = c.Close() })
	for _, name := range []string{"orders/1", "orders/2"} {
		lease, err := c.Mutex(name).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := lease.Unlock(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := election.New(c, "scheduler").Campaign(t.Context(), "here"); err != nil {
		t.Fatal(err)
	}
	short, err := c.Mutex("orders/3", pawl.WithMaxHold(20*time.Millisecond)).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	<-short.Context().Done()
}

func TestAScrapeIsCleanForPromtool(t *testing.T) {
	t.Parallel()
	byPart := prom.WithClass(func(name string) string { class, _, _ := strings.Cut(name, "/"); return class })
	for name, o := range map[string]*prom.Observer{"plain": prom.New(), "with classes": prom.New(byPart)} {
		everyMetric(t, o)
		page, err := get(t.Context(), serveMetrics(t, o))
		if err != nil {
			t.Fatal(err)
		}
		checkMetrics(t, name, page)
	}
}

// checkMetrics fails if promtool has anything to say of a page, and if it would say nothing of a bad one.
func checkMetrics(t *testing.T, name string, page []byte) {
	t.Helper()
	if len(page) == 0 {
		t.Errorf("%s: the page is empty", name)
	}
	if out, err := promtool(t, page, "check", "metrics"); err != nil || out != "" {
		t.Errorf("%s: promtool check metrics: %v\n%s", name, err, out)
	}
	if out, err := promtool(t, []byte("pawl_milliseconds 1\n"), "check", "metrics"); err == nil && out == "" {
		t.Error("promtool finds nothing wrong with a metric that has no help")
	}
}

var (
	metricName  = regexp.MustCompile(`\b(pawl_[a-z_]+|leader_election_[a-z_]+)\b`)
	labelValues = regexp.MustCompile(`^label_values\((.*), (job|instance|class)\)$`)
	variables   = strings.NewReplacer("$__rate_interval", "1m", "$__range", "1h", "$job", ".*", "$instance", ".*", "$class", ".*")
)

// A dashboard is what is tested of Grafana's JSON.
type dashboard struct {
	Title, UID string
	Templating struct {
		List []struct {
			Name, Type, Definition string
		}
	}
	Panels []struct {
		Title, Type, Description string
		Datasource               struct{ UID string }
		Targets                  []struct {
			Expr       string
			Datasource struct{ UID string }
		}
	}
}

func TestTheDashboardShowsEveryMetricAndNoOther(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile(folder + "grafana/pawl.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(src, &d); err != nil {
		t.Fatal(err)
	}
	o := prom.New()
	everyMetric(t, o)
	serve := startServe(t, "redis://"+testserver.Redis(t).Addr())
	p := startPrometheus(t, serveMetrics(t, o), "http://"+serve.Addr())
	await(t, "a scrape of both", func() bool {
		scraped, err := p.query(t.Context(), `leader_election_master_status == 1 or pawl_locks_held`)
		if err != nil {
			t.Fatal(err)
		}
		return len(scraped) == 2
	})
	var names []string
	if err := p.api(t.Context(), "label/__name__/values", nil, &names); err != nil {
		t.Fatal(err)
	}
	unused := map[string]bool{}
	for _, name := range names {
		if metricName.MatchString(name) {
			unused[strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_sum"), "_count"), "_bucket")] = true
		}
	}
	for _, panel := range d.Panels {
		if panel.Type != "row" && (len(panel.Targets) == 0 || panel.Description == "" || panel.Datasource.UID != "${datasource}") {
			t.Errorf("panel %q has no expression, no description, or a data source of its own", panel.Title)
		}
		for _, target := range panel.Targets {
			expr := variables.Replace(target.Expr)
			if strings.Contains(expr, "$") || target.Datasource.UID != "${datasource}" {
				t.Errorf("panel %q uses a variable that the dashboard lacks, or another data source: %s", panel.Title, target.Expr)
			}
			if _, err := p.query(t.Context(), expr); err != nil {
				t.Errorf("panel %q: %v", panel.Title, err)
			}
			used := metricName.FindAllString(expr, -1)
			for _, name := range used {
				if !slices.Contains(names, name) {
					t.Errorf("panel %q uses %s, which does not exist", panel.Title, name)
				}
				delete(unused, strings.TrimSuffix(strings.TrimSuffix(name, "_count"), "_bucket"))
			}
			if len(used) == 0 {
				t.Errorf("panel %q uses no metric: %s", panel.Title, target.Expr)
			}
		}
	}
	if len(unused) > 0 {
		t.Errorf("no panel shows %v", slices.Sorted(maps.Keys(unused)))
	}
	if list := d.Templating.List; len(list) == 0 || list[0].Type != "datasource" {
		t.Errorf("the first variable must be the data source: %v", list)
	}
	for _, v := range d.Templating.List[1:] {
		m := labelValues.FindStringSubmatch(variables.Replace(v.Definition))
		if m == nil {
			t.Errorf("variable %s has no label: %s", v.Name, v.Definition)
		} else if found, err := p.query(t.Context(), m[1]); err != nil || len(found) == 0 {
			t.Errorf("variable %s: %v finds %d series: %v", v.Name, m[1], len(found), err)
		}
	}
}
