package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/claimview"
	"github.com/pawl-go/pawl/driver"
)

func TestTheAPIHasTheLastListing(t *testing.T) {
	t.Parallel()
	s := newSite(t, newMemory(t), nil)
	ana, bo := newClient(t, s.store.Engine(), "ana@h pid 1 x (why)"), newClient(t, s.store.Engine(), "bo@h pid 2 x")
	hold(t, ana, "deploy")
	hold(t, ana, "other")
	queue(t, bo, "deploy")
	var all []map[string]any
	var got answer
	eventually(t, "three claims", func() bool {
		got = s.get("/api/v1/locks", nil)
		all = nil
		return json.Unmarshal([]byte(got.body), &all) == nil && len(all) == 3
	})
	if got.header.Get("Content-Type") != "application/json" || got.header.Get(storeHeader) != "ok" {
		t.Errorf("headers %v", got.header)
	}
	if age, err := strconv.ParseFloat(got.header.Get(ageHeader), 64); err != nil || age < 0 || age > testTimeout.Seconds() {
		t.Errorf("age %q", got.header.Get(ageHeader))
	}
	if all[0]["name"] != "deploy" || all[0]["state"] != "held" || all[0]["reason"] != "why" || all[1]["state"] != "waiting" || all[1]["ahead"] != 1.0 || all[2]["name"] != "other" {
		t.Errorf("%v", all)
	}
	if err := json.Unmarshal([]byte(s.get("/api/v1/locks?q=oth*", nil).body), &all); err != nil || len(all) != 1 || all[0]["name"] != "other" {
		t.Errorf("filtered: %v", all)
	}
	if body := s.get("/api/v1/locks?q=none", nil).body; body != "[]\n" {
		t.Errorf("nothing is %q", body)
	}
}

func TestAFilterLongerThanAnyNameIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, newMemory(t), nil)
	for _, path := range []string{"/?q=", "/api/v1/locks?q=", "/events?view=/&q="} {
		if got := s.do("HEAD", path+strings.Repeat("*a", maxQuery/2), "", nil).status; got != 200 {
			t.Errorf("%s: %d", path, got)
		}
		if got := s.do("HEAD", path+strings.Repeat("*a", maxQuery/2)+"*", "", nil).status; got != 400 {
			t.Errorf("%s, longer: %d", path, got)
		}
	}
}

func TestTheAPIWritesManyClaimsAsOneList(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, n := range []int{1, 2, claimsPerPart - 1, claimsPerPart, claimsPerPart + 1, 3 * claimsPerPart} {
		l := newLine("x", crowd("x", "ana@h pid 1 x", n), now, nil)
		want := make([]claimview.Claim, n)
		for i, e := range l.entries {
			want[i] = claimview.New(e, i)
		}
		whole, err := claimview.ToJSON(want, "  ")
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		if writeClaims(w, []*line{l}); w.Body.String() != string(whole) {
			t.Errorf("%d claims differ from one encoding", n)
		}
	}
}

// brokenStore is a store that does not answer.
type brokenStore struct{ err error }

func (s brokenStore) List(context.Context, string) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) { yield(driver.Entry{}, s.err) }
}

func (s brokenStore) Line(context.Context, string) ([]driver.Entry, error) { return nil, s.err }

func TestAStoreThatWasNeverSeenIsSaidSo(t *testing.T) {
	t.Parallel()
	s := newSite(t, newMemory(t), func(o *Options) {
		o.Store = brokenStore{errors.New("no <route>")}
		o.Explain = func(err error) string { return "explained: " + err.Error() }
	})
	if got := s.get("/api/v1/locks", nil); got.status != 503 || got.body != "{\n  \"error\": \"explained: no <route>\"\n}\n" || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("%d %q", got.status, got.body)
	}
	for _, path := range []string{"/", "/tree", "/name?name=x", "/holder?session=x"} {
		if body := s.get(path, nil).body; !strings.Contains(body, `data-state="away"`) || !strings.Contains(body, "explained: no &lt;route&gt;") || !strings.Contains(body, "Nothing has been seen yet") {
			t.Errorf("%s: %s", path, body)
		}
	}
	if got := s.get("/healthz", nil); got.status != 200 || !strings.HasPrefix(got.body, "store down\nsince ") {
		t.Errorf("health: %d %q", got.status, got.body)
	}
	if body := s.get("/metrics", nil).body; !strings.Contains(body, "\npawl_store_reachable 0\n") || strings.Contains(body, "pawl_locks_held") {
		t.Errorf("metrics:\n%s", body)
	}
}

func TestHealthSaysNothingOfAnOutageWithoutThePassword(t *testing.T) {
	t.Parallel()
	s := newSite(t, newMemory(t), func(o *Options) {
		o.Store, o.Password = brokenStore{errors.New("internal-host.example refused")}, "secret"
	})
	if got := s.get("/healthz", nil); got.status != 200 || got.body != "store down\n" {
		t.Errorf("%d %q", got.status, got.body)
	}
}

func TestMetricsAreCountedByClass(t *testing.T) {
	t.Parallel()
	class := func(pattern, name string) Class {
		p, err := claimview.Pattern(pattern)
		if err != nil {
			t.Fatal(err)
		}
		return Class{p, name}
	}
	s := newSite(t, newMemory(t), func(o *Options) {
		o.Classes = []Class{class("orders/*", "orders"), class("orders", "never"), class("odd", "a\"b\\c\nd")}
	})
	ana, bo := newClient(t, s.store.Engine(), "ana@h pid 1 x"), newClient(t, s.store.Engine(), "bo@h pid 2 x")
	for _, name := range []string{"orders/1", "orders/2", "odd", "secret customer"} {
		hold(t, ana, name)
	}
	queue(t, bo, "orders/1")
	var body string
	eventually(t, "all is counted", func() bool {
		body = s.get("/metrics", nil).body
		return strings.Contains(body, `pawl_locks_waiting{class="orders"} 1`)
	})
	for _, want := range []string{`pawl_locks_held{class="orders"} 2`, `pawl_locks_held{class=""} 1`, `pawl_locks_held{class="never"} 0`, `pawl_locks_held{class="a\"b\\c\nd"} 1`,
		`pawl_locks_waiting{class=""} 0`, `pawl_oldest_wait_seconds{class=""} 0`, "pawl_store_reachable 1", "pawl_listing_errors_total 0"} {
		if !strings.Contains(body, want+"\n") {
			t.Errorf("%s is missing:\n%s", want, body)
		}
	}
	if strings.Contains(body, "customer") {
		t.Error("a name became a label")
	}
	oldest := regexp.MustCompile(`(?m)^pawl_oldest_wait_seconds\{class="orders"\} (\S+)$`)
	first := oldest.FindStringSubmatch(body)
	if first == nil {
		t.Fatalf("no oldest wait:\n%s", body)
	}
	eventually(t, "the wait grows", func() bool {
		next := oldest.FindStringSubmatch(s.get("/metrics", nil).body)
		a, _ := strconv.ParseFloat(first[1], 64)
		b, err := strconv.ParseFloat(next[1], 64)
		return err == nil && b > a+0.01
	})
	checkMetrics(t, body)
}

// checkMetrics checks the format, with Prometheus' own tool too where it is installed.
func checkMetrics(t *testing.T, body string) {
	t.Helper()
	sample := regexp.MustCompile(`^([a-z_]+)(\{class="([^"\\\n]|\\["\\n])*"\})? [0-9.e+-]+$`)
	typed := map[string]bool{}
	seen := map[string]bool{}
	for text := range strings.Lines(body) {
		text = strings.TrimSuffix(text, "\n")
		if name, ok := strings.CutPrefix(text, "# TYPE "); ok {
			typed[strings.Fields(name)[0]] = true
			continue
		}
		if strings.HasPrefix(text, "# HELP ") {
			continue
		}
		m := sample.FindStringSubmatch(text)
		if m == nil || !typed[m[1]] || seen[m[1]+m[2]] {
			t.Errorf("not a sample, without a type, or twice: %q", text)
			continue
		}
		seen[m[1]+m[2]] = true
	}
	if promtool, err := exec.LookPath("promtool"); err == nil {
		cmd := exec.Command(promtool, "check", "metrics")
		cmd.Stdin = strings.NewReader(body)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("promtool: %v\n%s", err, out)
		}
	}
}

func TestAListingThatTakesTooLongHasFailed(t *testing.T) {
	t.Parallel()
	if !Refused(fmt.Errorf("x: %w", pawl.ErrDenied)) || Refused(pawl.ErrUnreachable) || Refused(nil) {
		t.Error("what is refused for good is not told from what may come back")
	}
	p := newPoller(hangingStore{}, func(err error) string { return err.Error() }, newHub(), newHistory(time.Now(), 10, 10))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := p.readAll(ctx, nil); !errors.Is(err, pawl.ErrUnreachable) {
		t.Errorf("a listing that was cut short: %v", err)
	}
}

// hangingStore ends its listings with ctx, after one entry and without an error.
type hangingStore struct{ brokenStore }

func (hangingStore) List(ctx context.Context, _ string) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		if yield(held("a", "x", 0), nil) {
			<-ctx.Done()
		}
	}
}
