package browser

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The tests rely on a tab to report what is wrong with a page. So a page with every
// kind of fault must be reported, each of them.
func TestTabReportsFaultsOfAPage(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Security-Policy", "script-src 'nonce-a'; style-src 'self'")
		_, _ = w.Write([]byte(`<!doctype html><title>x</title><p style="color: red">x</p><img src="/missing.png">
			<script>console.log("never")</script>
			<script nonce="a">console.error("an error"); setTimeout(() => { alert("a dialog"); document.title = "done"; undefined.x }, 0)</script>`))
	}))
	defer server.Close()
	b := newTab(t)
	b.open(server.URL)
	b.await("the last fault", `document.title === "done"`)
	wanted := []string{"an error", "dialog: a dialog", "404", "TypeError", "script", "style"}
	eval[bool](b, `console.warn("a warning") || true`)
	for _, text := range append(wanted, "a warning") {
		awaitGo(t, "a report of "+text, func() bool {
			b.faults.mu.Lock()
			defer b.faults.mu.Unlock()
			return strings.Contains(strings.Join(b.faults.all, "\n"), text)
		})
	}
	b.faults.expect("") // all of them
}

// The checks of a page find what they look for, and nothing on a page without faults.
func TestChecksFindFaultsOfAPage(t *testing.T) {
	t.Parallel()
	pages := map[string]string{
		"/good": `<!doctype html><html lang="en"><title>x</title><body><main><nav><a href="/">x</a></nav><h1 id="store" role="status">text</h1></main>`,
		"/bad": "<!doctype html><title></title><body><p style='color: #999; background: #fff'>grey</p><div style='width: 2000px'>wide</div>" +
			"<a href='javascript:x'></a><svg width='9' height='9'></svg><p>\x1b</p>",
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(pages[r.URL.Path]))
	}))
	defer server.Close()
	b := newTab(t)
	b.faults.expect("404") // its icon
	for page, bad := range map[string]bool{"/good": false, "/bad": true} {
		b.open(server.URL + page)
		_, low := b.contrast()
		for what, found := range map[string][]string{"contrast": low, "width": b.tooWide(), "harm": b.harm(), "names": eval[[]string](b, unnamed)} {
			if bad != (len(found) > 0) {
				t.Errorf("%s of %s: %v", what, page, found)
			}
		}
		if found := b.harm(); bad && len(found) < 3 {
			t.Errorf("of style, link and control character only %v was found", found)
		}
	}
}
