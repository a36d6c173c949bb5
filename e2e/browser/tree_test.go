package browser

import (
	"strings"
	"testing"
)

// treeOf returns the sessions of the tree as a list of paths from the root, in the
// page's order, each session by the note of its client.
func (b *tab) treeOf() string {
	b.t.Helper()
	return strings.Join(eval[[]string](b, `[...document.querySelectorAll("#tree li[data-session]")].map(li => {
		const path = [];
		for (let e = li; e; e = e.parentElement.closest("li[data-session]")) path.unshift(e.dataset.session);
		return path.join(" < ");
	})`), "\n")
}

// session returns the session of the only holder of a name.
func (s *store) session(name string) string {
	s.t.Helper()
	for _, e := range s.line(name) {
		if e.Held {
			return e.Session
		}
	}
	s.t.Fatalf("nobody holds %s", name)
	return ""
}

func TestTreeShowsAChainFromItsRoot(t *testing.T) {
	eachStore(t, func(t *testing.T, s *store) {
		s.hold("ana@a pid 1 migrate", "x")
		middle := s.client("ben@b pid 2 deploy")
		lock(t, middle, "y")
		s.queueOf(middle, "x")
		_, leave := s.queue("cleo@c pid 3 report", "y")
		s.hold("dan@d pid 4 alone", "z") // blocks nobody

		root, second := s.session("x"), s.session("y")
		third := s.line("y")[1].Session
		want := root + "\n" + root + " < " + second + "\n" + root + " < " + second + " < " + third
		v := s.serve()
		b := newTab(t)
		b.open(v.tree())
		b.awaitTree(want)
		text := eval[string](b, `document.querySelector("#tree").innerText`)
		for _, part := range []string{"ana@a", "ben@b", "cleo@c"} {
			if !strings.Contains(text, part) {
				t.Errorf("the tree does not say %s: %s", part, text)
			}
		}
		if strings.Contains(text, "dan@d") {
			t.Errorf("the tree shows a session that blocks nobody: %s", text)
		}
		if eval[bool](b, `!!document.querySelector("svg.ring")`) {
			t.Error("a chain is shown as a ring")
		}
		leave()
		b.awaitTree(root + "\n" + root + " < " + second)
		b.sameDocument()
	})
}

// awaitTree waits until the page shows the given paths.
func (b *tab) awaitTree(want string) {
	b.t.Helper()
	var got string
	awaitGo(b.t, "the tree", func() bool {
		got = b.treeOf()
		return got == want
	})
}

func TestSuspectedCycleIsShownAsARing(t *testing.T) {
	eachStore(t, func(t *testing.T, s *store) {
		ana, ben := s.client("ana@a pid 1 transfer"), s.client("ben@b pid 2 transfer")
		lock(t, ana, "account/3")
		lock(t, ben, "account/7")
		s.queueOf(ana, "account/7")
		v := s.serve()
		b := newTab(t)
		b.open(v.tree())
		b.await("the chain before the cycle", `document.querySelectorAll("#tree li[data-session]").length === 2`)
		_, leave := s.queueOf(ben, "account/3")
		b.await("a ring", `document.querySelector("svg.ring")`)
		text := eval[string](b, `document.querySelector("main").innerText`)
		for _, part := range []string{"uspected", "ana@a", "ben@b", "account/3", "account/7"} {
			if !strings.Contains(text, part) {
				t.Errorf("the page with a cycle does not say %q: %s", part, text)
			}
		}
		if !eval[bool](b, `(() => { const r = document.querySelector("svg.ring").getBoundingClientRect(); return r.width > 40 && r.height > 40 })()`) {
			t.Error("the ring is too small to be seen")
		}
		leave()
		b.await("the chain after the cycle", `!document.querySelector("svg.ring")`)
		b.sameDocument()
	})
}

func TestEmptyTreeSaysSo(t *testing.T) {
	t.Parallel()
	s := aStore(t)
	v := s.serve()
	b := newTab(t)
	b.open(v.tree())
	b.await("words", `/no(body|thing|ne)/i.test(document.querySelector("main").innerText)`)
}
