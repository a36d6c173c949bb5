package browser

import (
	"context"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
)

// A browser has six connections to one server, and each stream of events keeps one.
// Tabs that are not seen give theirs up, so that any number can be open, and are up to
// date when they are seen again.
func TestMoreTabsThanConnections(t *testing.T) {
	t.Parallel()
	s := aStore(t)
	s.hold("ana@ci-7 pid 4121 deploy.sh", "deploy")
	v := s.serve()
	tabs := []*tab{openTab(t, chromium.started(t), chromedp.WithNewBrowserContext(), chromedp.WithNewWindow(false))}
	for range 8 {
		tabs = append(tabs, openTab(t, tabs[0].ctx, chromedp.WithNewWindow(false)))
	}
	for _, b := range tabs {
		b.toFront()
		b.open(v.lines())
		b.awaitLines(s.shouldShow("deploy"))
	}
	if hidden := eval[bool](tabs[0], `document.hidden`); !hidden {
		t.Fatal("all tabs are seen at once")
	}
	s.queue("ben@ci-8 pid 812 deploy.sh", "deploy")
	for _, b := range tabs {
		b.toFront()
		b.awaitLines(s.shouldShow("deploy"))
		b.sameDocument()
	}
}

// toFront makes the tab the one that is seen.
func (b *tab) toFront() {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, page.BringToFront, cdp.Empty{})
		return err
	}))
}

// An update that made the browser compute the layout for every row would keep a
// processor busy for as long as a page is open.
func TestUpdateComputesTheLayoutOnce(t *testing.T) {
	t.Parallel()
	s := aStore(t)
	c := s.client("ana@ci-7 pid 4121 work.sh")
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t"} {
		lock(t, c, name)
	}
	v := s.serve()
	b := newTab(t)
	b.open(v.lines())
	b.await("all rows", `document.querySelectorAll("#lines [data-name]").length === 20`)
	eval[bool](b, `(() => {
		window.pawlUpdates = 0;
		new MutationObserver(() => window.pawlUpdates++).observe(document.getElementById("region"), {subtree: true, characterData: true, childList: true});
		return true;
	})()`)
	before := b.layouts()
	b.await("some updates", `window.pawlUpdates >= 3`)
	layouts, updates := b.layouts()-before, eval[float64](b, `window.pawlUpdates`)
	t.Logf("%v layouts in %v updates", layouts, updates)
	if layouts > 3*(updates+1) {
		t.Errorf("%v layouts in %v updates of 20 rows", layouts, updates)
	}
}

// layouts returns how often the browser has computed the page's layout.
func (b *tab) layouts() float64 {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	metrics, err := chromedp.Run(ctx, func(ctx context.Context, t *chromedp.Target) (performance.GetMetricsResult, error) {
		if _, err := cdp.Call(ctx, t, performance.Enable, performance.EnableParams{}); err != nil {
			return performance.GetMetricsResult{}, err
		}
		return cdp.Call(ctx, t, performance.GetMetrics, cdp.Empty{})
	})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, m := range metrics.Metrics {
		if m.Name == "LayoutCount" {
			return m.Value
		}
	}
	b.t.Fatal("the browser does not count layouts")
	return 0
}
