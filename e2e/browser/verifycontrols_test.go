package browser

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Every way to change the range of time changes what is drawn, and back.
func TestReportZoomsAndMoves(t *testing.T) {
	t.Parallel()
	r := newReport(10_000, true)
	b := newTab(t)
	b.openReport(r.write(t))
	_, lanes := r.firstViolation(b)
	canvas := lanes + " canvas"
	b.do(chromedp.Click("#whole"))
	b.do(chromedp.ScrollIntoView(lanes))
	steps := []struct {
		name string
		do   func()
	}{
		{"zoom in", func() { b.do(chromedp.Click("#zoomin")) }},
		{"later", func() { b.do(chromedp.Click("#later")) }},
		{"earlier", func() { b.do(chromedp.Click("#earlier")) }},
		{"Ctrl and the wheel", func() { b.wheel(canvas, -240, true) }},
		{"drag", func() { b.drag(canvas, -150) }},
		{"wheel after a click", func() { b.wheel(canvas, -240, false) }},
		{"zoom out", func() { b.do(chromedp.Click("#zoomout")) }},
		{"overview", func() { b.drag("#overview", 0) }},
		{"whole run", func() { b.do(chromedp.Click("#whole")) }},
		{"next violation", func() { b.do(chromedp.Click("#nextviolation")) }},
	}
	picture, overview := b.pictureOf(canvas), b.pictureOf("#overview")
	whole := b.shown()
	for _, s := range steps {
		before := b.shown()
		s.do()
		b.await("another range after "+s.name, `document.getElementById("shown").textContent !== `+quote(before))
		next, nextOverview := b.pictureOf(canvas), b.pictureOf("#overview")
		if next == picture || nextOverview == overview {
			t.Errorf("%s: from %q to %q nothing else is drawn", s.name, before, b.shown())
		}
		picture, overview = next, nextOverview
		if s.name == "whole run" && b.shown() != whole {
			t.Errorf("the whole run is %q, and was %q", b.shown(), whole)
		}
	}
	b.sameDocument()
}

// wheel turns the wheel over the middle of an element.
func (b *tab) wheel(selector string, by float64, ctrl bool) {
	b.t.Helper()
	x, y := b.middle(selector)
	e := input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseWheel, X: x, Y: y, DeltaX: 0.01, DeltaY: by} // a zero would be left out
	if ctrl {
		e.Modifiers = 2 // the bit of Ctrl
	}
	b.mouse(e)
}

// drag presses the mouse in the middle of an element, moves it and releases it.
func (b *tab) drag(selector string, by float64) {
	b.t.Helper()
	x, y := b.middle(selector)
	event := func(kind input.DispatchMouseEventType, x float64) {
		b.mouse(input.DispatchMouseEventParams{Type: kind, X: x, Y: y, Button: input.MouseButtonLeft, Buttons: 1, ClickCount: 1})
	}
	event(input.DispatchMouseEventTypeMousePressed, x)
	for i := 1.0; i <= 4; i++ {
		event(input.DispatchMouseEventTypeMouseMoved, x+by*i/4)
	}
	event(input.DispatchMouseEventTypeMouseReleased, x+by)
}

func (b *tab) middle(selector string) (x, y float64) {
	b.t.Helper()
	at := eval[[]float64](b, `(box => [(box.left + box.right) / 2, (box.top + box.bottom) / 2])(document.querySelector(`+quote(selector)+`).getBoundingClientRect())`)
	return at[0], at[1]
}

func (b *tab) mouse(e input.DispatchMouseEventParams) {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, input.DispatchMouseEvent, e)
		return err
	}))
}

// Everything on the page with the keyboard alone, and what a screen reader says.
func TestReportWithTheKeyboardAlone(t *testing.T) {
	t.Parallel()
	r := newReport(10_000, true)
	b := newTab(t)
	b.openReport(r.write(t))
	first, lanes := r.firstViolation(b)
	b.checkStops("report")
	said := func() string { b.t.Helper(); return eval[string](b, `document.getElementById("said").textContent`) }
	b.tabTo("#firstlanes")
	token := fmt.Sprintf("token %d", r.History.Attempts[first.Attempts[0]].Token)
	if got := b.tip(); !strings.Contains(got, token) || !strings.HasPrefix(said(), token) {
		t.Errorf("the focus on the first violation shows %q and says %q", got, said())
	}
	b.tabTo("#nextviolation")
	b.press(keyEnter)
	b.await("the violation's timeline", `document.activeElement.matches(`+quote(lanes)+`)`)
	for _, key := range []string{"+", "+", kb.ArrowLeft, kb.ArrowRight, "-", kb.End, kb.Home, "0", "v"} {
		before, picture := b.shown(), b.pictureOf(lanes+" canvas")
		b.press(key)
		if b.pictureOf(lanes+" canvas") == picture || b.shown() == before {
			t.Errorf("the key %q does not change what is drawn: %s", key, before)
		}
	}
	seen := map[string]bool{said(): true}
	for _, key := range []string{"n", "n", kb.ArrowDown, "p", kb.ArrowUp} {
		b.press(key)
		b.frame()
		if seen[said()] && key != kb.ArrowUp {
			t.Errorf("the key %q stays at %q", key, said())
		}
		seen[said()] = true
		if b.tip() == "" {
			t.Errorf("the key %q shows nothing", key)
		}
	}
	before := b.shown()
	b.press(keyEnter)
	b.frame()
	if b.shown() == before {
		t.Error("Enter does not zoom to the attempt")
	}
	b.press(kb.Escape)
	if b.tip() != "" || said() != "" {
		t.Errorf("Escape leaves %q", b.tip())
	}
	b.sameDocument()
}

// The pointer shows tokens.
func TestReportShowsTokensUnderThePointer(t *testing.T) {
	t.Parallel()
	r := newReport(10_000, true)
	b := newTab(t)
	b.openReport(r.write(t))
	x, y := b.middle("#firstlanes canvas")
	found := map[string]bool{}
	for dx := -300.0; dx <= 300; dx += 50 {
		for dy := -80.0; dy <= 80; dy += 20 {
			b.mouse(input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseMoved, X: x + dx, Y: y + dy})
			found[b.tip()] = true
		}
	}
	first, _ := r.firstViolation(b)
	for _, i := range first.Attempts {
		a := r.History.Attempts[i]
		want := fmt.Sprintf("token %d\nclient %d, goroutine %d, %s", a.Token, a.Client, a.Lane, a.Name)
		if !containsPrefix(found, want) {
			t.Errorf("the pointer found %d texts, none begins with %q", len(found), want)
		}
	}
}

func containsPrefix(set map[string]bool, prefix string) bool {
	for s := range set {
		if strings.HasPrefix(s, prefix) {
			return true
		}
	}
	return false
}
