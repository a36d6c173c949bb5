package browser

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"
)

//go:embed contrast.js
var contrast string

// longName is about as long as a name may be, and has no space at which to break it.
var longName = "tenant/" + strings.Repeat("Ünïcödé", 12) + "/" + strings.Repeat("x", 100)

// checkContrast fails the test if a text of the page is hard to read.
func (b *tab) checkContrast(what string) {
	b.t.Helper()
	texts, low := b.contrast()
	if texts == 0 {
		b.t.Errorf("%s: the page has no text", what)
	}
	for _, text := range low {
		b.t.Errorf("%s: contrast of %s", what, text)
	}
}

// contrast returns how many texts the page has, and those that are hard to read.
func (b *tab) contrast() (texts int, low []string) {
	b.t.Helper()
	seen := eval[struct {
		Texts int
		Low   []string
	}](b, contrast)
	return seen.Texts, seen.Low
}

// checkWidth fails the test if the page scrolls sideways.
func (b *tab) checkWidth(what string) {
	b.t.Helper()
	if out := b.tooWide(); len(out) > 0 {
		b.t.Errorf("%s: %s", what, strings.Join(out, "; "))
	}
}

// tooWide returns the elements that stick out of the window, and the page if it scrolls
// sideways. Pictures cut off what is in them.
func (b *tab) tooWide() []string {
	b.t.Helper()
	return eval[[]string](b, `(() => {
		const root = document.documentElement, out = [];
		if (root.scrollWidth > root.clientWidth) out.push("the page is " + root.scrollWidth + " wide, the window " + root.clientWidth);
		for (const e of document.body.querySelectorAll("*")) {
			const box = e.getBoundingClientRect();
			if (box.width > 0 && box.right > root.clientWidth + 0.5 && e.checkVisibility() && !e.parentElement.closest("svg")) {
				out.push(e.tagName + "." + e.getAttribute("class") + " ends at " + box.right);
			}
		}
		return out.slice(0, 5);
	})()`)
}

// Every page, in both colour schemes, on a wide and on a narrow screen, and for those who
// do not see it.
func TestPagesFitAndAreLegible(t *testing.T) {
	t.Parallel()
	s := busyStore(t)
	s.hold("tenant@web-3.a-long-name-of-a-host.example.com pid 77 import.py (first import of a very large customer)", longName)
	s.queue("x@"+strings.Repeat("y", 90)+" pid 78 import.py", longName)
	v, readOnly := s.serveUnlock(), s.serve()
	pages := []struct{ name, url, ready string }{
		{"lines", v.lines(), `document.querySelector("#lines .waiter")`},
		{"lines-filtered", v.filter("nothing has this name"), `document.querySelector("#filter")`},
		{"tree", v.tree(), `document.querySelector("#tree li") && document.querySelector("svg.ring")`},
		{"name", v.name("deploy/production"), `document.querySelector("form#unlock") && document.querySelector("svg#timeline, #timeline svg")`},
		{"name-read-only", readOnly.name("deploy/production"), `document.querySelector(".holder")`},
		{"name-long", v.name(longName), `document.querySelector(".holder")`},
		{"name-free", v.name("never/used"), `document.querySelector("main")`},
		{"holder", v.holder(s.session("deploy/production")), `document.querySelector("main").innerText.includes("deploy/production")`},
		{"holder-unknown", v.holder("none"), `document.querySelector("main")`},
	}
	b := newTab(t)
	b.faults.expect("404") // of what is not there
	for _, p := range pages {
		b.open(p.url)
		b.await("the page "+p.name, p.ready)
		for _, fault := range eval[[]string](b, unnamed) {
			t.Errorf("%s: %s", p.name, fault)
		}
		for _, scheme := range []string{"light", "dark"} {
			b.scheme(scheme)
			for _, width := range []int64{1280, 360} {
				b.resize(width, 900)
				what := fmt.Sprintf("%s-%s-%d", p.name, scheme, width)
				b.checkContrast(what)
				b.checkWidth(what)
				b.save(what)
			}
		}
		b.sameDocument()
	}
}
