package browser

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// faults are what a browser reports about the pages of a tab: errors and warnings of
// the console, which include exceptions, requests that failed or were refused, and
// violations of the content security policy; and dialogs.
type faults struct {
	ended chan struct{} // closed when the console has reported the end of the test

	mu       sync.Mutex // guards what follows
	all      []string
	expected []string
}

// end is what a test writes to the console to know that all messages were read.
const end = "end of the test"

// watchFaults collects the faults of a tab.
func watchFaults(ctx context.Context) *faults {
	f := &faults{ended: make(chan struct{})}
	messages, dialogs := chromedp.Console(ctx), chromedp.Events(ctx, page.JavascriptDialogOpening)
	go f.listen(messages)      // ends with the tab's context
	go f.dismiss(ctx, dialogs) // ends with the tab's context
	return f
}

// listen collects what the console shows, until the end of the test.
func (f *faults) listen(messages iter.Seq2[chromedp.ConsoleMessage, error]) {
	defer close(f.ended)
	for m, err := range messages {
		switch {
		case err != nil || m.Text == end:
			return
		case m.Type != chromedp.ConsoleDebug && m.Type != chromedp.ConsoleInfo && m.Type != chromedp.ConsoleLog:
			f.add(m.String())
		}
	}
}

// dismiss reports dialogs, and closes them: a page stands still while one is open.
func (f *faults) dismiss(ctx context.Context, dialogs iter.Seq2[page.EventJavascriptDialogOpening, error]) {
	for d, err := range dialogs {
		if err != nil {
			return
		}
		f.add("dialog: " + d.Message)
		_, _ = chromedp.Run(ctx, func(ctx context.Context, t *chromedp.Target) (cdp.Empty, error) {
			return cdp.Call(ctx, t, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: true})
		})
	}
}

func (f *faults) add(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, text)
}

// expect lets a fault pass whose text contains the given one.
func (f *faults) expect(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expected = append(f.expected, text)
}

// check fails the test if there were faults that it did not expect. It is called once,
// at the end.
func (f *faults) check(t *testing.T, ctx context.Context) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[chromedp.Void](`console.debug(`+quote(end)+`)`)); err != nil {
		t.Errorf("the page does not answer at the end: %v", err)
		return
	}
	select {
	case <-f.ended:
	case <-ctx.Done():
		t.Error("the console did not report the end of the test")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fault := range f.all {
		if !slices.ContainsFunc(f.expected, func(text string) bool { return strings.Contains(fault, text) }) {
			t.Errorf("the browser reports: %s", fault)
		}
	}
}
