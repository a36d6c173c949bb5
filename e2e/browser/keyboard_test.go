package browser

import (
	"slices"
	"strings"
	"testing"
)

// Everything a page offers, from the first page to a broken lock, with the keyboard
// alone: no click, no focus set by the test.
func TestKeyboardAloneIsEnough(t *testing.T) {
	eachStore(t, func(t *testing.T, s *store) {
		holder := s.run("deploy", "stuck")
		next, _ := s.runQueued("deploy", "next")
		s.hold("ana@ci-7 pid 4121 backup.sh", "backup")
		v := s.serveUnlock()
		b := newTab(t)
		b.open(v.lines())
		b.awaitLines(s.shouldShow("deploy"), s.shouldShow("backup"))

		b.press(keyTab)
		if got := eval[string](b, `document.activeElement.getAttribute("href")`); !strings.HasPrefix(got, "#") {
			t.Errorf("the first stop is %q, not a link past the navigation", got)
		}
		b.press(keyEnter)
		b.tabTo("#filter")
		b.press("dep" + keyEnter)
		b.await("the filtered page", `document.querySelectorAll("#lines [data-name]").length === 1`)

		b.tabTo(row("deploy") + ` a[href*="name?"]`)
		b.press(keyEnter)
		b.await("the page of the name", `location.pathname === "/name" && document.querySelector(".waiter")`)
		b.tabTo(`.holder a[href*="holder?"]`)
		b.press(keyEnter)
		b.await("the page of the holder", `location.pathname === "/holder" && document.querySelector("main").innerText.includes("deploy")`)
		b.tabTo(`nav a[href*="tree"]`)
		b.press(keyEnter)
		b.await("the tree", `location.pathname === "/tree" && document.querySelector("#tree li")`)
		b.tabTo("#tree summary")
		open := eval[bool](b, `document.activeElement.parentElement.open`)
		b.press(keyEnter)
		if eval[bool](b, `document.activeElement.parentElement.open`) == open {
			t.Error("Enter neither opens nor closes a branch of the tree")
		}
		if !open {
			b.press(keyEnter)
		}
		b.press(keyEnter)

		b.tabTo(`#tree a[href*="name?"]`)
		b.press(keyEnter)
		b.await("the page of the name", `location.pathname === "/name" && document.querySelector("form#unlock")`)
		b.tabTo("form#unlock input[name=name]")
		b.press("deploy")
		b.tabTo("form#unlock button, form#unlock input[type=submit]")
		b.press(keyEnter)
		b.await("the result", `document.querySelector("#result")?.innerText.trim()`)
		next.awaitHeld()
		<-holder.ended
	})
}

// Tab reaches every link, button, field and branch of a page, each shows that it has
// the focus, and after the last one the page begins again: nothing keeps the focus.
func TestTabReachesEverythingVisibly(t *testing.T) {
	t.Parallel()
	s := aStore(t)
	ana := s.client("ana@a pid 1 migrate")
	lock(t, ana, "x")
	lock(t, ana, "y")
	s.queue("ben@b pid 2 deploy", "x")
	v := s.serveUnlock()
	b := newTab(t)
	for _, scheme := range []string{"light", "dark"} {
		b.scheme(scheme)
		for _, url := range []string{v.lines(), v.tree(), v.name("x"), v.holder(s.session("x"))} {
			b.open(url)
			b.await("a claim", `document.querySelector("[data-id], [data-session]")`)
			b.checkStops(scheme + " " + url)
		}
	}
}

// checkStops presses Tab through the page.
func (b *tab) checkStops(what string) {
	b.t.Helper()
	const describe = `(e => e.tagName + " " + (e.id || e.getAttribute("href") || e.name || e.closest("[data-session]")?.dataset.session || e.innerText))`
	want := eval[[]string](b, `[...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary")].filter(e => e.checkVisibility()).map(`+describe+`)`)
	seen := map[string]bool{}
	for range len(want) + 5 {
		b.press(keyTab)
		stop := eval[struct {
			Body    bool
			What    string
			Visible bool
		}](b, `(e => { const s = getComputedStyle(e), box = e.getBoundingClientRect(); return {
			Body: e === document.body, What: `+describe+`(e),
			Visible: (s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 1 || s.boxShadow !== "none") && box.width > 1 && box.height > 1 && box.right > 0 && box.bottom > 0,
		} })(document.activeElement)`)
		if !stop.Body && !stop.Visible {
			b.t.Errorf("%s: %s does not show that it has the focus", what, stop.What)
		}
		seen[stop.What] = true
	}
	if i := slices.IndexFunc(want, func(w string) bool { return !seen[w] }); i >= 0 {
		b.t.Errorf("%s: Tab does not reach %s; of %d it reached %d", what, want[i], len(want), len(seen))
	}
	if len(want) < 4 {
		b.t.Errorf("%s: the page offers only %v", what, want)
	}
}
