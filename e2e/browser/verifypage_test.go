package browser

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/pawl-go/pawl/internal/history"
)

// Both schemes, wide and narrow, with a violation and without, and with texts that would
// do harm.
func TestReportFitsAndIsLegible(t *testing.T) {
	t.Parallel()
	hostile := newReport(2_000, true)
	for i := range hostile.History.Attempts {
		a := &hostile.History.Attempts[i]
		a.Name = map[string]string{"deploy": hostileName, "orders/42": longName, "permits": "\x1b[31m\u202eexe", "settings": `"><img src=x onerror=alert(3)>`}[a.Name]
		a.Err = hostileNote
	}
	hostile.History.Left = []string{hostileName + longName}
	hostile.Store, hostile.Faults = "redis://"+hostileNote, hostileNames
	hostile.Report = history.Check(hostile.History, history.Promise{Order: true, Fencing: true})
	b := newTab(t)
	for name, r := range map[string]*report{"violated": newReport(10_000, true), "held": newReport(10_000, false), "long": newReport(120_000, true), "hostile": hostile} {
		b.openReport(r.write(t))
		for _, fault := range eval[[]string](b, strings.Replace(unnamed, `, ["#store", 1]`, ``, 1)) {
			t.Errorf("%s: %s", name, fault)
		}
		for _, scheme := range []string{"light", "dark"} {
			b.scheme(scheme)
			for _, width := range []int64{1280, 360} {
				b.resize(width, 900)
				b.frame()
				what := fmt.Sprintf("report-%s-%s-%d", name, scheme, width)
				b.checkContrast(what)
				b.checkWidth(what)
				b.save(what)
			}
		}
		b.scheme("light")
		b.resize(1280, 900)
		b.do(chromedp.Click("#whole"))
		b.frame()
		b.save("report-" + name + "-whole")
		for _, found := range b.harm() {
			if !strings.HasPrefix(found, "<script type=") && !strings.HasPrefix(found, "style=") { // its own, and what the script has set
				t.Errorf("%s: %s", name, found)
			}
		}
		b.sameDocument()
	}
}

// The policy of the page refuses what is not its own: a script, a style, an address.
func TestReportRunsNothingElse(t *testing.T) {
	t.Parallel()
	b := newTab(t)
	b.openReport(newReport(500, true).write(t))
	eval[bool](b, `(() => {
		window.pawlRefused = [];
		document.addEventListener("securitypolicyviolation", e => window.pawlRefused.push(e.effectiveDirective));
		const script = document.createElement("script");
		script.textContent = "window.pawlForeign = true";
		const style = document.createElement("style");
		style.textContent = "body { display: none }";
		document.body.append(script, style, Object.assign(new Image(), {src: "http://127.0.0.1:9/x.png"}));
		return true;
	})()`)
	b.faults.expect("Content Security Policy")
	b.await("three refusals", `["script-src-elem", "style-src-elem", "img-src"].every(d => window.pawlRefused.includes(d))`)
	if eval[bool](b, `window.pawlForeign === true || getComputedStyle(document.body).display === "none"`) {
		t.Error("the page runs what was added to it")
	}
}

// How long the page takes is logged. The limits are for a machine that is busy and many
// times slower: they find a page that does the work of all attempts for each one.
func TestReportIsFastEnough(t *testing.T) {
	for _, attempts := range []int{10_000, 200_000} {
		r := newReport(attempts, true)
		address := r.write(t)
		b := newTab(t)
		begun := time.Now()
		b.openReport(address)
		load := time.Since(begun)
		b.do(chromedp.Click("#whole"))
		b.do(chromedp.ScrollIntoView(".lanes[data-name='0']"))
		b.frame()
		step := map[string]time.Duration{}
		for _, id := range []string{"zoomin", "later", "earlier", "zoomout"} {
			b.eventually(`(async () => {
				const begun = performance.now();
				document.getElementById(` + quote(id) + `).click();
				await new Promise(requestAnimationFrame);
				window.pawlTook = performance.now() - begun;
			})()`)
			step[id] = time.Duration(eval[float64](b, `window.pawlTook`) * float64(time.Millisecond))
			if step[id] > 3*time.Second {
				t.Errorf("%d attempts: %s takes %v", attempts, id, step[id])
			}
		}
		t.Logf("%d attempts: drawn after %v, steps %v", attempts, load, step)
		if load > 20*time.Second {
			t.Errorf("%d attempts: drawn after %v", attempts, load)
		}
		b.close()
	}
}

// The picture of the documentation; docs/images says how to save it.
func TestPictureOfAReport(t *testing.T) {
	t.Parallel()
	b := newTab(t)
	b.scheme("light")
	b.resize(1100, 800)
	b.openReport(newReport(10_000, true).write(t))
	b.resize(1100, eval[int64](b, `Math.ceil(document.getElementById("overview").getBoundingClientRect().bottom + scrollY) + 12`))
	b.frame()
	b.checkPicture("verify-report")
}

// Runs without what a page usually has: an attempt, or a violation that has a moment on a
// timeline.
func TestReportOfLittle(t *testing.T) {
	t.Parallel()
	b := newTab(t)
	empty := &report{History: &history.History{}, Report: &history.Report{}}
	b.open(empty.write(t))
	b.awaitShown("No verdict")
	b.awaitShown("No lock was asked for.")
	b.frame()

	left := newReport(100, false)
	left.History.Left = []string{"a claim of client 3"}
	left.Report = history.Check(left.History, history.Promise{Order: true, Fencing: true})
	b.openReport(left.write(t))
	b.awaitShown("Violated: 1 of ")
	b.awaitShown("a claim of client 3")
	if eval[bool](b, `!!document.querySelector("#firstlanes, #nextviolation, a[data-violation]")`) {
		t.Error("the page offers to show what is on no timeline")
	}
	before := b.pictureOf(".lanes canvas")
	b.do(chromedp.Click("#zoomin"))
	if b.pictureOf(".lanes canvas") == before {
		t.Error("the timeline does not zoom")
	}
}

// A report needs no script for its verdict and its tables.
func TestReportWithoutScripts(t *testing.T) {
	t.Parallel()
	r := newReport(10_000, true)
	b := newTab(t)
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		return err
	}))
	b.do(chromedp.Navigate(r.write(t)))
	b.awaitShown(r.Report.Gravest().Text)
	b.awaitShown("Violated: 3 of 10 rules were broken.")
	b.awaitShown("The timelines need JavaScript.")
}

// The report prints, in the colours of paper whatever the screen has.
func TestReportPrints(t *testing.T) {
	t.Parallel()
	b := newTab(t)
	b.scheme("dark")
	b.openReport(newReport(2_000, true).write(t))
	eval[bool](b, `addEventListener("beforeprint", () => {
		const c = document.querySelector("#firstlanes canvas").getContext("2d");
		const d = c.getImageData(0, 0, c.canvas.width, c.canvas.height).data, colours = new Set();
		for (let at = 0; at < d.length; at += 4) if (d[at + 3] === 255) colours.add(d.slice(at, at + 3).join(" "));
		window.pawlPrinted = [...colours];
	}) ?? true`)
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	colours := true
	pdf, err := chromedp.Run(ctx, func(ctx context.Context, t *chromedp.Target) ([]byte, error) {
		r, err := cdp.Call(ctx, t, page.PrintToPDF, page.PrintToPDFParams{PrintBackground: &colours})
		return r.Data, err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(pdf, []byte("%PDF")) {
		t.Errorf("it prints %.20q", pdf)
	}
	if !eval[bool](b, `window.pawlPrinted?.includes("160 20 20")`) { // --bad on paper
		t.Errorf("printed in the colours %v", eval[[]string](b, `window.pawlPrinted ?? []`))
	}
	if os.Getenv("PAWL_SCREENSHOTS") != "" {
		if err := os.WriteFile(filepath.Join(os.Getenv("PAWL_SCREENSHOTS"), "report.pdf"), pdf, 0o644); err != nil {
			t.Error(err)
		}
	}
}
