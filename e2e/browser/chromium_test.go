package browser

import (
	"context"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// chromium is the browser of all tests, started when the first one needs it.
var chromium browser

type browser struct {
	once   sync.Once
	dir    string          // its home, with its profile and temporary files
	ctx    context.Context // nil: it did not start
	cancel context.CancelFunc
	err    error
}

// started returns the context of the browser. A test is skipped if there is no browser,
// and fails if nothing may be missing.
func (b *browser) started(t *testing.T) context.Context {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatalf("%v; nothing may be missing with CI=true", err)
	}
	if err != nil {
		t.Skipf("%v (Debian: apt-get install chromium)", err)
	}
	b.once.Do(func() { b.start(path) })
	if b.err != nil {
		t.Fatalf("chromium: %v", b.err)
	}
	return b.ctx
}

func (b *browser) start(path string) {
	if b.dir, b.err = os.MkdirTemp("", "pawl-chromium-"); b.err != nil {
		return
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.Env("HOME="+b.dir, "TMPDIR="+b.dir, "XDG_CONFIG_HOME="+b.dir, "XDG_CACHE_HOME="+b.dir, "LANG=C.UTF-8", "TZ=UTC"),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-gpu", true),
		chromedp.Flag("no-proxy-server", true),
		chromedp.Flag("hide-scrollbars", true),
		chromedp.Flag("renderer-process-limit", "2"))
	allocator, release := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	if b.err = chromedp.Do(ctx); b.err != nil { // without a deadline: it would end the browser
		cancel()
		release()
		return
	}
	b.ctx, b.cancel = ctx, func() { cancel(); release() }
}

// end asks the browser to end, waits for its process, and removes its files.
func (b *browser) end() error {
	if b.ctx == nil {
		return os.RemoveAll(b.dir)
	}
	ctx, cancel := context.WithTimeout(b.ctx, 10*time.Second)
	defer cancel()
	err := chromedp.Cancel(ctx)
	b.cancel()
	if err != nil {
		return err
	}
	return os.RemoveAll(b.dir)
}
