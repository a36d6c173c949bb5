package browser

import (
	"strings"
	"testing"

	"github.com/pawl-go/pawl/internal/testserver"
)

// The page of a store that does not answer, and then of one that refuses connections:
// it says so, keeps what it knows, and recovers without a reload.
func TestPageOutlivesItsStore(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t, "--appendonly", "yes")
	s := newStore(t, "redis://"+redis.Addr())
	s.hold("ana@ci-7 pid 4121 deploy.sh", "deploy")
	s.queue("ben@ci-8 pid 812 deploy.sh", "deploy")
	v := s.serve()
	lines, tree := newTab(t), newTab(t)
	lines.open(v.lines())
	tree.open(v.tree())
	before := s.shouldShow("deploy")
	lines.awaitLines(before)
	tree.await("the tree", `document.querySelectorAll("#tree li[data-session]").length === 2`)
	lines.awaitState("ok")

	for name, outage := range map[string]struct{ begin, end func() }{
		"does not answer":     {redis.Pause, redis.Resume},
		"refuses connections": {redis.Kill, redis.Restart},
	} {
		outage.begin()
		lines.awaitState("away")
		tree.awaitState("away")
		lines.awaitLines(before)
		if !eval[bool](lines, `/since|for/.test(document.querySelector("#store").innerText)`) {
			t.Errorf("a store that %s: the page does not say since when: %s", name, eval[string](lines, `document.querySelector("#store").innerText`))
		}
		for _, scheme := range []string{"light", "dark"} {
			lines.scheme(scheme)
			lines.checkContrast("store away, " + scheme)
			lines.save("away-" + scheme)
		}
		late := newTab(t) // a page that is opened now has the last state too
		late.open(v.lines())
		late.awaitState("away")
		late.awaitLines(before)

		outage.end()
		for _, b := range []*tab{lines, tree, late} {
			b.awaitState("ok")
		}
		lines.awaitLines(before)
	}
	lines.sameDocument()
	tree.sameDocument()
}

// awaitState waits until the page says how the store stands.
func (b *tab) awaitState(state string) {
	b.t.Helper()
	b.await("the store "+state, `document.querySelector("#store")?.dataset.state === `+quote(state))
}

// A server that starts before its store has a page that waits for it.
func TestPageOfAStoreThatComesLater(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t)
	redis.Stop()
	s := &store{t: t, url: "redis://" + redis.Addr()}
	v := s.serve()
	b := newTab(t)
	b.open(v.lines())
	b.await("a page without a state", `["away", "unknown"].includes(document.querySelector("#store").dataset.state)`)
	b.save("never-seen")
	const none = `document.querySelector("main").innerText.includes("No lock is held")`
	if eval[bool](b, none) {
		t.Error("a page that knows nothing says that no lock is held")
	}
	redis.Restart()
	b.awaitState("ok")
	b.await("no locks", none)
	b.sameDocument()
}

// A page outlives its server too: it says that it is cut off, and goes on when the
// server is back.
func TestPageOutlivesItsServer(t *testing.T) {
	t.Parallel()
	s := aStore(t)
	s.hold("ana@ci-7 pid 4121 deploy.sh", "deploy")
	v := s.serve()
	b := newTab(t)
	b.open(v.lines())
	b.awaitLines(s.shouldShow("deploy"))
	b.faults.expect("ERR_CONNECTION_REFUSED")
	b.faults.expect("ERR_INCOMPLETE_CHUNKED_ENCODING") // of the stream that ended
	if code := v.end(); code != 0 {
		t.Errorf("pawl serve exits with %d", code)
	}
	b.await("words about the server", `document.querySelector("#link").innerText.includes("pawl serve")`)
	b.awaitLines(s.shouldShow("deploy"))
	b.checkContrast("server away")
	b.save("server-away")

	s.serve("--listen", strings.TrimPrefix(v.base, "http://"))
	t.Cleanup(b.close) // before this server ends
	s.queue("ben@ci-8 pid 812 deploy.sh", "deploy")
	b.awaitLines(s.shouldShow("deploy"))
	b.await("no words about the server", `document.querySelector("#link").innerText === ""`)
	b.sameDocument()
}
