package browser

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// patience is how long a test waits for what must happen. It is no bound on speed.
const patience = 30 * time.Second

// A tab is a page in a window without cookies, cache or history of other tests.
type tab struct {
	t      *testing.T
	ctx    context.Context
	faults *faults
	close  func() // may be called twice
}

// newTab opens an empty tab, 1280 pixels wide. The test fails if a page in it reports
// a fault.
func newTab(t *testing.T) *tab {
	t.Helper()
	return openTab(t, chromium.started(t), chromedp.WithNewBrowserContext())
}

func openTab(t *testing.T, parent context.Context, opts ...chromedp.ContextOption) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(parent, opts...)
	b := &tab{t: t, ctx: ctx}
	if err := chromedp.Do(ctx); err != nil { // without a deadline: it would end the tab
		cancel()
		t.Fatal(err)
	}
	b.faults = watchFaults(ctx)
	b.close = sync.OnceFunc(func() {
		b.faults.check(t, ctx)
		cancel()
	})
	t.Cleanup(b.close)
	b.resize(1280, 900)
	return b
}

// do runs a step, and ends the test if it fails.
func (b *tab) do(step chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, step); err != nil {
		b.t.Fatal(err)
	}
}

// open loads a page, and marks it, so that [tab.sameDocument] notices a reload. A password
// in the address is given first, as in the browser's dialog, and then left out.
func (b *tab) open(address string) {
	b.t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		b.t.Fatal(err)
	}
	if u.User != nil {
		b.do(chromedp.Navigate((&url.URL{Scheme: u.Scheme, User: u.User, Host: u.Host, Path: "/tree"}).String()))
		u.User = nil
	}
	b.do(chromedp.Navigate(u.String()))
	b.mark()
}

func (b *tab) mark() { b.t.Helper(); eval[bool](b, `window.pawlTestMark = true`) }

// sameDocument fails the test if the page was loaded again since it was opened.
func (b *tab) sameDocument() {
	b.t.Helper()
	if !eval[bool](b, `window.pawlTestMark === true`) {
		b.t.Error("the page was loaded again")
	}
}

// resize sets the size of the window.
func (b *tab) resize(width, height int64) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, height))
}

// scheme emulates the preference for "light" or "dark".
func (b *tab) scheme(name string) {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}, {Name: "prefers-reduced-motion", Value: "reduce"}},
		})
		return err
	}))
}

// eval returns the value of an expression in the page.
func eval[T any](b *tab, js string) T {
	b.t.Helper()
	v, err := tryEval[T](b, js)
	if err != nil {
		b.t.Fatalf("%s: %v", js, err)
	}
	return v
}

func tryEval[T any](b *tab, js string) (T, error) {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](js))
}

// await polls until an expression is true. Errors are those of a page that is being
// loaded.
func (b *tab) await(what, js string) {
	b.t.Helper()
	for begun := time.Now(); ; {
		ok, err := tryEval[bool](b, "!!("+js+")")
		if ok {
			return
		}
		if time.Since(begun) > patience {
			text, _ := tryEval[string](b, `location.href + "\n" + document.body.innerText`)
			b.t.Fatalf("not seen within %v: %s (%v); the page is\n%s", patience, what, err, text)
		}
		time.Sleep(20 * time.Millisecond) // poll: there is no notification across pages
	}
}

// The keys that have no character of their own.
const (
	keyTab       = kb.Tab
	keyEnter     = kb.Enter
	keyBackspace = kb.Backspace
)

// press presses and releases keys, one after the other, as a keyboard does.
func (b *tab) press(keys string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys))
}

// tabTo presses Tab until the focus is on an element that matches the selector.
func (b *tab) tabTo(selector string) {
	b.t.Helper()
	const most = 300 // stops of a page
	for range most {
		b.press(keyTab)
		if eval[bool](b, `document.activeElement.matches(`+quote(selector)+`)`) {
			return
		}
	}
	b.t.Fatalf("%d times Tab do not reach %s", most, selector)
}

// picture returns a PNG, of the whole page or of what the window shows.
func (b *tab) picture(whole bool) []byte {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	png, err := chromedp.Run(ctx, func(ctx context.Context, t *chromedp.Target) ([]byte, error) {
		shot, err := cdp.Call(ctx, t, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatPng, CaptureBeyondViewport: &whole})
		return shot.Data, err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return png
}

// quote returns s as a string of JavaScript.
func quote(s string) string { return strconv.QuoteToASCII(s) }

// row is the selector of a name's row on the page of lines.
func row(name string) string {
	return fmt.Sprintf(`#lines [data-name="%s"]`, strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name))
}
