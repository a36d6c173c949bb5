// Package observe_test tests the observers with what is made for them: a real Prometheus, and the
// SDK of OpenTelemetry.
package observe_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pawl-go/pawl/internal/testserver"
)

// folder is where the modules, the rules and the dashboard are.
const folder = "../../observe/"

// limit is how long a test waits for what must happen.
const limit = time.Minute

// A prometheusServer is a real Prometheus.
type prometheusServer struct{ *testserver.Server }

// startPrometheus starts a Prometheus that scrapes targets, which are URLs, twice a second and
// evaluates the rules as often.
func startPrometheus(t *testing.T, targets ...string) prometheusServer {
	t.Helper()
	rules, err := filepath.Abs(folder + "alerts/pawl.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	var addrs []string
	for _, target := range targets {
		addrs = append(addrs, strconv.Quote(strings.TrimPrefix(target, "http://")))
	}
	config := fmt.Sprintf(`
global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}
rule_files: [%q]
scrape_configs:
  - job_name: test
    static_configs: [{targets: [%s]}]
`, rules, strings.Join(addrs, ", "))
	return prometheusServer{testserver.Start(t, testserver.Spec{
		Name:    "prometheus",
		Package: "prometheus",
		Binary:  testserver.File{"prometheus"},
		Prepare: func(_ context.Context, s *testserver.Server) error {
			return os.WriteFile(filepath.Join(s.Dir(), "prometheus.yml"), []byte(config), 0o644)
		},
		Args: func(s *testserver.Server) []string {
			return []string{
				"--config.file=" + filepath.Join(s.Dir(), "prometheus.yml"),
				"--storage.tsdb.path=" + filepath.Join(s.Dir(), "data"),
				"--web.listen-address=" + s.Addr(),
			}
		},
		Ready: func(ctx context.Context, s *testserver.Server) error {
			_, err := get(ctx, "http://"+s.Addr()+"/-/ready")
			return err
		},
	})}
}

// api asks Prometheus, and decodes the data of its answer.
func (p prometheusServer) api(ctx context.Context, path string, query url.Values, data any) error {
	body, err := get(ctx, "http://"+p.Addr()+"/api/v1/"+path+"?"+query.Encode())
	if err != nil {
		return err
	}
	return json.Unmarshal(body, &struct{ Data any }{data})
}

// A sample is one element of a query's result.
type sample struct {
	Metric map[string]string
	Value  [2]any // time and value
}

// query evaluates an expression now.
func (p prometheusServer) query(ctx context.Context, expr string) ([]sample, error) {
	var data struct{ Result []sample }
	err := p.api(ctx, "query", url.Values{"query": {expr}}, &data)
	return data.Result, err
}

// An alert is one that is pending or fires.
type alert struct {
	State       string
	Labels      map[string]string
	Annotations map[string]string
}

func (p prometheusServer) alerts(t *testing.T) (firing map[string]alert) {
	t.Helper()
	var data struct{ Alerts []alert }
	if err := p.api(t.Context(), "alerts", nil, &data); err != nil {
		t.Fatal(err)
	}
	firing = map[string]alert{}
	for _, a := range data.Alerts {
		if a.State == "firing" {
			firing[a.Labels["alertname"]] = a
		}
	}
	return firing
}

// evaluated waits until the rules were evaluated after now.
func (p prometheusServer) evaluated(t *testing.T) {
	t.Helper()
	now := time.Now()
	await(t, "an evaluation of the rules", func() bool {
		var data struct {
			Groups []struct {
				LastEvaluation time.Time
				Rules          []struct{ Health, LastError string }
			}
		}
		if err := p.api(t.Context(), "rules", nil, &data); err != nil {
			t.Fatal(err)
		}
		for _, g := range data.Groups {
			for _, r := range g.Rules {
				if r.LastError != "" {
					t.Fatalf("a rule is %s: %s", r.Health, r.LastError)
				}
			}
			if !g.LastEvaluation.After(now) {
				return false
			}
		}
		return len(data.Groups) > 0
	})
}

// await polls until something has happened.
func await(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for begun := time.Now(); !happened(); time.Sleep(20 * time.Millisecond) {
		if time.Since(begun) > limit {
			t.Fatalf("waited %v for %s", limit, what)
		}
	}
}

func get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, resp.Status, body)
	}
	return body, err
}

// serveMetrics serves what collectors have, as a program does, and returns its URL.
func serveMetrics(t *testing.T, all ...prometheus.Collector) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(all...)
	s := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}))
	t.Cleanup(s.Close)
	return s.URL
}

// promtool runs promtool and returns what it printed.
func promtool(t *testing.T, stdin []byte, args ...string) (string, error) {
	t.Helper()
	if _, err := exec.LookPath("promtool"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err, "(Debian: apt-get install prometheus)")
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "promtool", args...)
	cmd.Stdin = bytes.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
