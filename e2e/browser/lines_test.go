package browser

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/stalltest"
)

// A shownLine is a row of the page of lines: claims by ID, in the page's order.
type shownLine struct {
	Name    string
	Holders []string
	Waiters []string
}

// shownLines returns the rows of the page.
func (b *tab) shownLines() []shownLine {
	b.t.Helper()
	return eval[[]shownLine](b, `[...document.querySelectorAll("#lines [data-name]")].map(row => ({
		Name: row.dataset.name,
		Holders: [...row.querySelectorAll(".holder[data-id]")].map(e => e.dataset.id),
		Waiters: [...row.querySelectorAll(".waiter[data-id]")].map(e => e.dataset.id),
	}))`)
}

// line returns the claims of a name as the store has them.
func (s *store) shouldShow(name string) shownLine {
	s.t.Helper()
	want := shownLine{Name: name}
	for _, e := range s.line(name) {
		if e.Held {
			want.Holders = append(want.Holders, e.ID)
		} else {
			want.Waiters = append(want.Waiters, e.ID)
		}
	}
	return want
}

// awaitLines waits until the page shows exactly the given rows, in this order.
func (b *tab) awaitLines(want ...shownLine) {
	b.t.Helper()
	var got []shownLine
	same := func(a, b shownLine) bool {
		return a.Name == b.Name && slices.Equal(a.Holders, b.Holders) && slices.Equal(a.Waiters, b.Waiters)
	}
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) { // poll: there is no notification
		if got = b.shownLines(); slices.EqualFunc(got, want, same) {
			return
		}
		if time.Since(begun) > patience {
			b.t.Fatalf("the page shows\n%v\nnot\n%v", got, want)
		}
	}
}

func TestLinesAreShownInOrder(t *testing.T) {
	eachStore(t, func(t *testing.T, s *store) {
		holder := s.run("deploy", "release 4.2")
		first, _ := s.runQueued("deploy", "release 4.3")
		s.runQueued("deploy", "release 4.4")
		s.runQueued("deploy", "rollback")
		s.hold("ana@ci-7 pid 4121 backup.sh", "backup")
		s.hold("ben@ci-8 pid 5 archive.sh", "archive")

		v := s.serve()
		b := newTab(t)
		b.open(v.lines())
		deploy := s.shouldShow("deploy")
		if len(deploy.Holders) != 1 || len(deploy.Waiters) != 3 {
			t.Fatalf("the store has %v", deploy)
		}
		// Three wait for deploy and nobody for the others, which follow by name.
		b.awaitLines(deploy, s.shouldShow("archive"), s.shouldShow("backup"))
		text := eval[string](b, `document.querySelector(`+quote(row("deploy"))+`).innerText`)
		for _, reason := range []string{"release 4.2", "release 4.3", "release 4.4", "rollback"} {
			if !strings.Contains(text, reason) {
				t.Errorf("the row does not say %q: %s", reason, text)
			}
		}

		holder.end()
		first.awaitHeld()
		passed := shownLine{Name: "deploy", Holders: deploy.Waiters[:1], Waiters: deploy.Waiters[1:]}
		b.awaitLines(passed, s.shouldShow("archive"), s.shouldShow("backup"))
		b.sameDocument()
	})
}

func TestRowsGoWithTheirLocks(t *testing.T) {
	eachStore(t, func(t *testing.T, s *store) {
		lease := s.hold("ana@ci-7 pid 4121 backup.sh", "backup")
		v := s.serve()
		b := newTab(t)
		b.open(v.lines())
		b.awaitLines(s.shouldShow("backup"))
		if err := lease.Unlock(); err != nil {
			t.Fatal(err)
		}
		b.awaitLines()
		if text := eval[string](b, `document.querySelector("main").innerText`); strings.TrimSpace(text) == "" {
			t.Error("a page without locks says nothing")
		}
		s.hold("ben@ci-8 pid 5 archive.sh", "archive")
		b.awaitLines(s.shouldShow("archive"))
		b.sameDocument()
	})
}

// firstSeen records in the page when it first shows each waiter.
const firstSeen = `(() => {
	window.pawlSeen = {};
	const look = () => document.querySelectorAll(".waiter[data-id]").forEach(e => { window.pawlSeen[e.dataset.id] ??= Date.now() });
	new MutationObserver(look).observe(document.documentElement, {subtree: true, childList: true, attributes: true});
	look();
	return true;
})()`

// The time is taken from before the waiter asks for the lock until the page's document
// has it. The median counts: a machine that is busy with other tests stalls now and
// then. What is certain on any machine is that no waiter needs a second listing.
func TestNewWaiterAppearsWithinASecond(t *testing.T) {
	eachStore(t, func(t *testing.T, s *store) {
		s.hold("ana@ci-7 pid 4121 deploy.sh", "deploy")
		v := s.serve()
		b := newTab(t)
		b.open(v.lines())
		b.awaitLines(s.shouldShow("deploy"))
		eval[bool](b, firstSeen)
		const times = 7
		stalltest.Within(t, time.Second, "the median of new waiters is shown", func() time.Duration {
			var took []time.Duration
			for range times {
				took = append(took, s.timeToBeSeen(b, "deploy"))
			}
			slices.Sort(took)
			t.Logf("new waiters were shown after %v", took)
			return took[times/2]
		})
		b.sameDocument()
	})
}

// timeToBeSeen returns how long it took until the page showed a new waiter, which then
// leaves.
func (s *store) timeToBeSeen(b *tab, name string) time.Duration {
	s.t.Helper()
	c := s.client("ben@ci-8 pid 5 deploy.sh")
	begun := time.Now()
	claim, giveUp := s.queueOf(c, name)
	defer giveUp()
	b.await("the new waiter", `window.pawlSeen[`+quote(claim)+`]`)
	seen := time.UnixMilli(int64(eval[float64](b, `window.pawlSeen[`+quote(claim)+`]`)))
	return seen.Sub(begun.Truncate(time.Millisecond).Round(0)) // by the wall clock, as the page does
}

func TestFilterSelectsByNameAndSurvivesUpdates(t *testing.T) {
	t.Parallel()
	s := aStore(t)
	for _, name := range []string{"orders/41", "orders/42", "invoices/42", "reports"} {
		s.hold("ana@ci-7 pid 4121 work.sh", name)
	}
	v := s.serve()
	b := newTab(t)
	b.open(v.lines())
	b.awaitLines(s.shouldShow("invoices/42"), s.shouldShow("orders/41"), s.shouldShow("orders/42"), s.shouldShow("reports"))
	for text, want := range map[string][]string{
		"orders/":   {"orders/41", "orders/42"},
		"*/42":      {"invoices/42", "orders/42"},
		"port":      {"reports"}, // inside a name
		"orders/4?": {"orders/41", "orders/42"},
		"nothing":   nil,
	} {
		b.open(v.filter(text))
		var lines []shownLine
		for _, name := range want {
			lines = append(lines, s.shouldShow(name))
		}
		b.awaitLines(lines...)
		if got := eval[string](b, `document.querySelector("#filter").value`); got != text {
			t.Errorf("the filter shows %q, not %q", got, text)
		}
	}
	b.open(v.filter("orders/"))
	s.queue("ben@ci-8 pid 5 work.sh", "orders/42")
	s.queue("ben@ci-8 pid 6 work.sh", "reports")
	b.awaitLines(s.shouldShow("orders/42"), s.shouldShow("orders/41"))
	b.sameDocument()
}

func TestFocusAndTypedTextSurviveUpdates(t *testing.T) {
	t.Parallel()
	s := aStore(t)
	s.hold("ana@ci-7 pid 4121 deploy.sh", "deploy")
	v := s.serve()
	b := newTab(t)
	b.open(v.lines())
	b.awaitLines(s.shouldShow("deploy"))
	b.tabTo("#filter")
	b.press("dep")
	_, leave := s.queue("ben@ci-8 pid 5 deploy.sh", "deploy")
	b.awaitLines(s.shouldShow("deploy"))
	b.press("loy")
	if got := eval[string](b, `document.activeElement.id + " " + document.activeElement.value`); got != "filter deploy" {
		t.Errorf("after an update the focus is on %q, not on the filter with the text", got)
	}
	b.await("the filter applied", `new URLSearchParams(location.search).get("q") === "deploy"`)
	b.press(strings.Repeat(keyBackspace, len("deploy")))

	// The link of a row keeps the focus although the row around it changes, and moves.
	b.tabTo(row("deploy") + " a")
	link := eval[string](b, `document.activeElement.href`)
	s.hold("ana@ci-7 pid 4122 archive.sh", "archive")
	leave()
	awaitGo(t, "the end of the wait in the store", func() bool { return len(s.line("deploy")) == 1 })
	s.queue("ben@ci-8 pid 6 archive.sh", "archive")
	b.awaitLines(s.shouldShow("archive"), s.shouldShow("deploy"))
	if got := eval[string](b, `String(document.activeElement.href)`); got != link {
		t.Errorf("after an update the focus is on %q, not on %q", got, link)
	}
	b.sameDocument()
}

func TestReadersWritersAndPermitsAreShown(t *testing.T) {
	eachStore(t, func(t *testing.T, s *store) {
		for _, c := range []*pawl.Client{s.client("r1@a pid 1 read"), s.client("r2@a pid 2 read")} {
			if _, err := c.RWMutex("catalogue").RLock(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		writer, reader := s.client("w@a pid 3 write"), s.client("r3@a pid 4 read")
		s.wait(func(ctx context.Context) (*pawl.Lease, error) { return writer.RWMutex("catalogue").Lock(ctx) })
		awaitGo(t, "the writer in line", func() bool { return len(s.line("catalogue")) == 3 })
		s.wait(func(ctx context.Context) (*pawl.Lease, error) { return reader.RWMutex("catalogue").RLock(ctx) })
		awaitGo(t, "the reader behind it", func() bool { return len(s.line("catalogue")) == 4 })
		for _, permits := range []int{2, 1} {
			if _, err := s.client("g@a pid 5 train").Semaphore("gpu", 4).Acquire(t.Context(), permits); err != nil {
				t.Fatal(err)
			}
		}
		v := s.serve()
		b := newTab(t)
		b.open(v.lines())
		catalogue := s.shouldShow("catalogue")
		if len(catalogue.Holders) != 2 || len(catalogue.Waiters) != 2 {
			t.Fatalf("the store has %v", catalogue)
		}
		b.awaitLines(catalogue, s.shouldShow("gpu"))
		if text := eval[string](b, `document.querySelector(`+quote(row("gpu"))+`).innerText`); !strings.Contains(text, "3 of 4") || !strings.Contains(text, "2 permits") {
			t.Errorf("the row of a semaphore does not say how many permits are held, and by whom: %s", text)
		}
	})
}
