package dashboard

import (
	"context"
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/election"
)

// hiddenNote is what somebody with access to a store may write about themselves.
const hiddenNote = "\x1b]0;owned\x07\x1b[2J\u202e\u200b\r\n\ndata: x\n\nevent: evil\n</li><script>alert(1)</script><img src=x onerror=alert(1)>\"' style=\"x\""

func TestTextOfOthersIsTextOnEveryPage(t *testing.T) {
	t.Parallel()
	s := newSite(t, newMemory(t), func(o *Options) { o.Evict = nil })
	evil := newClient(t, s.store.Engine(), hiddenNote)
	victim := newClient(t, s.store.Engine(), "ana@h pid 1 x")
	name := `<script>alert("1")</script>' onmouseover='x {{.}} &amp; ` + "\u202e\u200b"
	hold(t, evil, name)
	hold(t, victim, "deploy")
	queue(t, victim, name)
	queue(t, evil, "deploy")
	go func() { _, _ = election.New(evil, name).Campaign(t.Context(), hiddenNote) }()
	session := ""
	eventually(t, "all is listed", func() bool {
		m := regexp.MustCompile(`"holder\?session=(\w+)`).FindStringSubmatch(s.get("/name?name="+url.QueryEscape(name), nil).body)
		if m == nil {
			return false
		}
		session = m[1]
		held, waiting := 0, 0
		if st, _ := s.d.hub.current(); st.snap != nil {
			held, waiting = st.snap.counts()
		}
		return held == 3 && waiting == 2
	})
	pages := []string{"/", "/?q=" + url.QueryEscape(name), "/?q=" + url.QueryEscape(hiddenNote), "/tree", "/name?name=" + url.QueryEscape(name), "/name?name=deploy",
		"/name?name=" + url.QueryEscape(hiddenNote), "/name?name=" + url.QueryEscape(election.New(nil, name).LockName()), "/holder?session=" + session,
		"/holder?session=" + url.QueryEscape(hiddenNote), "/name", "/holder"}
	shown := 0
	for _, path := range pages {
		got := s.get(path, nil)
		if got.status != 200 && (got.status != 400 || strings.Contains(path, "?")) {
			t.Errorf("%s: %d", path, got.status)
		}
		shown += strings.Count(got.body, "&lt;script&gt;")
		checkText(t, path, got.body)
	}
	if shown < 10 {
		t.Errorf("the name and the note are shown %d times", shown)
	}
	for _, view := range []string{"view=/", "view=/tree", "view=/name&name=deploy", "view=/holder&session=" + session} {
		l := s.listen(view)
		checkText(t, view, l.until(`id="region"`))
		l.close()
	}
	if body := s.get("/api/v1/locks", nil).body; strings.ContainsAny(body, "\x1b\x07\u202e\u200b\r") || !strings.Contains(body, `\u202e`) {
		t.Errorf("the API does not escape:\n%s", body)
	}
	if body := s.get("/metrics", nil).body; strings.Contains(body, "script") {
		t.Errorf("names are labels:\n%s", body)
	}
}

// checkText fails if a page has what only an attacker puts there: tags from names or
// notes, control characters, or anything inline.
func checkText(t *testing.T, place, body string) {
	t.Helper()
	for _, bad := range []string{"<script>", "<img", "onerror=alert(1)>", "\x1b", "\x07", "\u202e", "\u200b", "\r", ` style="`, "javascript:"} {
		if at := strings.Index(body, bad); at >= 0 {
			t.Errorf("%s has %q: …%q…", place, bad, body[max(0, at-60):min(len(body), at+60)])
		}
	}
	if m := regexp.MustCompile(`<[^>]*\son[a-z]+=["'][^>]*>`).FindString(body); m != "" {
		t.Errorf("%s has a handler: %s", place, m)
	}
}

func TestPagesSayWhatThereIs(t *testing.T) {
	t.Parallel()
	s := newSite(t, newMemory(t), nil)
	ana, bo := newClient(t, s.store.Engine(), "ana@h pid 1 deploy.sh (release 4.2)"), newClient(t, s.store.Engine(), "bo@h pid 2 x")
	hold(t, ana, "deploy")
	hold(t, bo, "db")
	queue(t, bo, "deploy")
	queue(t, ana, "db")
	eventually(t, "both wait", func() bool {
		st, _ := s.d.hub.current()
		_, waiting := st.snap.counts()
		return waiting == 2
	})
	session := regexp.MustCompile(`<a class="who" href="(holder\?session=\w+)">ana@h`).FindStringSubmatch(s.get("/", nil).body)
	if session == nil {
		t.Fatal("no link to the holder")
	}
	for path, want := range map[string][]string{
		"/":                 {`id="lines"`, `data-name="deploy"`, `class="holder" data-id=`, `class="waiter" data-id=`, `id="filter"`, `id="store" role="status" data-state="ok"`, `data-age="`, "release 4.2", `href="tree"`, `class="skip"`},
		"/tree":             {`svg class="ring"`, "Suspected", "goroutines of one session may be independent", `data-session=`, `id="tree"`},
		"/name?name=deploy": {`id="timeline"`, "<svg", "may be missing", "The same as a table", "<table", "1 in line"},
		"/name?name=free":   {"Nobody holds it or waits for it."},
		"/" + session[1]:    {"Holds", "Waits for", ">deploy</a>", ">db</a>", "release 4.2"},
		"/holder?session=x": {"It holds nothing and waits for nothing now."},
		"/?q=dep*":          {`data-name="deploy"`, "1 match"},
		"/?q=none":          {"No name matches."},
	} {
		body := s.get(path, nil).body
		for _, text := range want {
			if !strings.Contains(body, text) {
				t.Errorf("%s does not say %q", path, text)
			}
		}
		if n := strings.Count(body, "<h1>"); n != 1 {
			t.Errorf("%s has %d headings", path, n)
		}
	}
	if body := s.get("/?q=dep*", nil).body; strings.Contains(body, `data-name="db"`) {
		t.Error("the filter shows other names")
	}
}

func TestAssetsAreServedFromTheBinary(t *testing.T) {
	t.Parallel()
	s := newSite(t, newMemory(t), nil)
	for path, kind := range map[string]string{"/assets/live.js": "text/javascript; charset=utf-8", "/assets/style.css": "text/css; charset=utf-8", "/assets/icon.svg": "image/svg+xml"} {
		if got := s.get(path, nil); got.status != 200 || got.header.Get("Content-Type") != kind || got.body == "" {
			t.Errorf("%s: %d %s", path, got.status, got.header.Get("Content-Type"))
		}
	}
	for _, path := range []string{"/assets/", "/assets/none.js", "/assets/..%2fpages%2fpage.html", "/assets/%2e%2e/dashboard.go", "/pages/page.html"} {
		if got := s.get(path, nil); got.status == 200 {
			t.Errorf("%s: %d %q", path, got.status, got.body)
		}
	}
	for _, file := range []string{"assets/live.js", "assets/style.css", "../pagestyle/base.css", "pages/page.html"} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if m := regexp.MustCompile(`(https?:)?//[a-z]+[.][a-z]`).FindString(string(b)); m != "" {
			t.Errorf("%s refers to another server: %s", file, m)
		}
	}
}

func TestNumbersInAnAddressMayBeAnything(t *testing.T) {
	t.Parallel()
	s := newSite(t, newMemory(t), nil)
	hold(t, newClient(t, s.store.Engine(), "ana@h pid 1 x"), "deploy")
	eventually(t, "the page after the last one is the last", func() bool {
		return strings.Contains(s.get("/?from=100", nil).body, "ana@h")
	})
	for _, n := range []string{"9223372036854775807", "-9223372036854775808", "99999999999999999999", "1e9", "153722868"} {
		for _, path := range []string{"/?from=" + n, "/name?name=deploy&minutes=" + n} {
			if got := s.get(path, nil); got.status != 200 {
				t.Errorf("%s: %d", path, got.status)
			}
		}
	}
}

// A proxy may serve the pages below a path, which it removes from requests.
func TestEveryLinkWorksBelowAPath(t *testing.T) {
	t.Parallel()
	e := newMemory(t)
	s := newSite(t, e, func(o *Options) {
		o.Hosts = []string{"127.0.0.1"}
		o.Evict = func(context.Context, driver.Entry) error { return nil }
	})
	ana, bo := newClient(t, e, "ana@h pid 1 x"), newClient(t, e, "bo@h pid 2 x")
	hold(t, ana, "deploy")
	queue(t, bo, "deploy")
	for i := range rowsPerPage {
		hold(t, ana, fmt.Sprint("more/", i))
	}
	eventually(t, "all are listed", func() bool { return strings.Contains(s.get("/", nil).body, "1 to 100 of 101") })
	origin, _ := url.Parse("http://" + s.addr)
	proxy := httptest.NewServer(http.StripPrefix("/locks", httputil.NewSingleHostReverseProxy(origin)))
	defer proxy.Close()
	links, seen := regexp.MustCompile(`(?:href|src|action|data-events)="([^"#]+)`), map[string]bool{}
	for todo := []string{proxy.URL + "/locks/", proxy.URL + "/locks/unlock"}; len(todo) > 0; todo = todo[1:] {
		page := todo[0]
		if seen[page] || len(seen) > 500 {
			continue
		}
		seen[page] = true
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
		r, _ := http.NewRequestWithContext(ctx, "GET", page, nil)
		if strings.Contains(page, "/events?") {
			r.Method = "HEAD" // it does not end
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		cancel()
		if err != nil || resp.StatusCode != 200 {
			t.Errorf("%s: %s %v", page, resp.Status, err)
		}
		if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
			for _, m := range links.FindAllStringSubmatch(string(body), -1) {
				next, err := resp.Request.URL.Parse(html.UnescapeString(m[1]))
				if err != nil {
					t.Fatal(err)
				}
				todo = append(todo, next.String())
			}
		}
	}
	for _, kind := range []string{"/locks/tree", "/locks/assets/live.js", "/locks/name?name=deploy", "/locks/holder?session=", "/locks/events?", "/locks/?from=100"} {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(seen)), func(link string) bool { return strings.Contains(link, kind) }) {
			t.Errorf("no link to %s among %d", kind, len(seen))
		}
	}
}
