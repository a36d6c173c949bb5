package browser

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// The page of a name has its history since the server started: as a picture, and as a
// table with the same facts.
func TestPageOfANameShowsWhatHappened(t *testing.T) {
	eachStore(t, func(t *testing.T, s *store) {
		holder := s.run("deploy", "release 4.2")
		next, claim := s.runQueued("deploy", "release 4.3")
		v := s.serve()
		b := newTab(t)
		b.open(v.name("deploy"))
		b.await("the line", `document.querySelector(".holder") && document.querySelectorAll(".waiter").length === 1`)
		const bars = `document.querySelectorAll("svg#timeline rect, #timeline svg rect").length`
		b.await("a wait and a hold on the timeline", bars+" >= 2")
		holder.end()
		next.awaitHeld()
		b.await("the next holder", `document.querySelector(".holder")?.dataset.id === `+quote(claim)+` && !document.querySelector(".waiter")`)
		b.await("a further hold on the timeline", bars+" >= 3")
		text := eval[string](b, `[...document.querySelectorAll("table")].map(e => e.textContent).join("\n")`)
		for _, part := range []string{"release 4.2", "release 4.3"} {
			if !strings.Contains(text, part) {
				t.Errorf("no table says what %q did: %s", part, text)
			}
		}
		next.end()
		b.await("a free lock", `!document.querySelector(".holder")`)
		if text := eval[string](b, `document.querySelector("main").textContent`); !strings.Contains(text, "release 4.3") {
			t.Errorf("the history of a free lock is gone: %s", text)
		}
		b.sameDocument()
	})
}

// A holder's page has everything that its session holds and waits for, and follows it.
func TestPageOfAHolderShowsAllItsClaims(t *testing.T) {
	eachStore(t, func(t *testing.T, s *store) {
		ana := s.client("ana@a pid 1 migrate")
		lock(t, ana, "one")
		two := lock(t, ana, "two")
		s.hold("ben@b pid 2 deploy", "three")
		s.queueOf(ana, "three")
		v := s.serve()
		b := newTab(t)
		b.open(v.holder(s.session("one")))
		const names = `[...document.querySelectorAll("main .claims [data-id] a")].map(e => e.innerText).sort().join(" ")`
		b.await("its claims", names+` === "one three two"`)
		if err := two.Unlock(); err != nil {
			t.Fatal(err)
		}
		b.await("the claims that are left", names+` === "one three"`)
		b.sameDocument()
	})
}

// What a screen reader needs: a language, a title, landmarks, one heading above all
// others, and a name for everything that can have the focus or is a picture.
const unnamed = `(() => {
	const faults = [], all = s => [...document.querySelectorAll(s)].filter(e => e.checkVisibility());
	const said = e => (e.getAttribute("aria-label") ?? "") + e.textContent.trim() + [...(e.labels ?? [])].map(l => l.textContent.trim()).join("");
	if (!document.documentElement.lang) faults.push("no language");
	if (!document.title) faults.push("no title");
	for (const [one, n] of [["main", 1], ["nav", 1], ["h1", 1], ["#store", 1]]) if (all(one).length !== n) faults.push(all(one).length + " of " + one);
	for (const e of all("a, button, summary, input:not([type=hidden])")) if (!said(e)) faults.push("nameless " + e.outerHTML);
	for (const e of all("svg")) if (!e.closest("[aria-hidden=true]") && !(e.getAttribute("role") === "img" && (e.getAttribute("aria-label") || e.getAttribute("aria-labelledby") || e.querySelector("title")))) faults.push("nameless picture " + e.outerHTML.slice(0, 200));
	for (const e of document.querySelectorAll("table")) if (!e.querySelector("th")) faults.push("table without a heading " + e.outerHTML.slice(0, 200));
	const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
	for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) faults.push("twice: #" + id);
	if (!document.querySelector("[aria-live], [role=status], [role=alert]")) faults.push("no region that is read out");
	return faults;
})()`

func TestPagesHaveTitlesOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := aStore(t)
	s.hold("ana@ci-7 pid 4121 deploy.sh", "deploy")
	v := s.serve()
	b := newTab(t)
	titles := map[string]string{}
	for _, page := range []string{v.lines(), v.tree(), v.name("deploy"), v.holder(s.session("deploy"))} {
		b.open(page)
		title := eval[string](b, `document.title`)
		if titles[title] != "" {
			t.Errorf("%s and %s have the title %q", titles[title], page, title)
		}
		titles[title] = page
	}
}

// Without scripts the pages are those of the moment at which they were asked for.
func TestPagesWorkWithoutScripts(t *testing.T) {
	t.Parallel()
	s := aStore(t)
	s.hold("ana@ci-7 pid 4121 deploy.sh", "deploy")
	s.queue("ben@ci-8 pid 812 deploy.sh", "deploy")
	v := s.serve()
	b := newTab(t)
	b.open(v.lines())
	b.awaitLines(s.shouldShow("deploy")) // the first listing has been made
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		return err
	}))
	for page, part := range map[string]string{
		v.lines(): ".waiter", v.tree(): "#tree li li", v.name("deploy"): ".holder", v.holder(s.session("deploy")): ".claims [data-id]", v.filter("dep"): ".waiter",
	} {
		b.do(chromedp.Navigate(page))
		b.await("claims on "+page, `document.querySelector(`+quote(part)+`)`)
	}
}

// A browser that has logged in sends the password with the stream of events too.
func TestPasswordLetsABrowserIn(t *testing.T) {
	t.Parallel()
	s := aStore(t)
	s.hold("ana@ci-7 pid 4121 deploy.sh", "deploy")
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("correct horse\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	v := s.serve("--password-file", file)
	b := newTab(t)
	b.faults.expect("401")
	_ = chromedp.Do(b.ctx, chromedp.Navigate(v.lines())) // fails with the status 401
	if text := eval[string](b, `document.documentElement?.outerHTML ?? ""`); strings.Contains(text, "deploy") {
		t.Errorf("without a password the page says %s", text)
	}
	at, err := url.Parse(v.lines())
	if err != nil {
		t.Fatal(err)
	}
	at.User = url.UserPassword("ops", "correct horse")
	b = newTab(t)
	b.open(at.String())
	b.awaitLines(s.shouldShow("deploy"))
	s.queue("ben@ci-8 pid 812 deploy.sh", "deploy")
	b.awaitLines(s.shouldShow("deploy"))
	b.sameDocument()
}
