package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/pawl-go/pawl/internal/history"
	"github.com/pawl-go/pawl/internal/historytest"
)

// A report is what the page of pawl verify is made from.
type report struct {
	Store, Version string
	Begun          time.Time
	Length         time.Duration
	Faults         []string
	Counts         []struct {
		Label string
		N     int
	}
	History *history.History
	Report  *history.Report
}

// newReport returns a run of so many invented attempts, judged by the rules.
func newReport(attempts int, violated bool) *report {
	h := historytest.Invent(attempts, 1, violated)
	r := &report{
		Store: "redis://cache-1.example:6379", Version: "1.0.0", Begun: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Length: time.Duration(h.End),
		Faults: []string{"pause", "kill", "cut"}, History: h, Report: history.Check(h, history.Promise{Order: true, Fencing: true}),
	}
	r.count("attempts", attempts)
	r.count("faults", len(h.Faults))
	return r
}

func (r *report) count(label string, n int) {
	r.Counts = append(r.Counts, struct {
		Label string
		N     int
	}{label, n})
}

// write returns the address of the report's page, a file.
func (r *report) write(t *testing.T) string {
	t.Helper()
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program(t, "renderreport"))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(data), &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, &errs)
	}
	file := filepath.Join(t.TempDir(), "out.html")
	if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(file)}).String()
}

// openReport opens a report, and waits until its timelines are drawn.
func (b *tab) openReport(address string) {
	b.t.Helper()
	b.open(address)
	b.await("the range of time", `document.getElementById("shown").textContent`)
	b.frame()
}

// frame waits until the browser has drawn what was asked for before.
func (b *tab) frame() {
	b.t.Helper()
	b.eventually(`new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
}

// eventually waits for a promise.
func (b *tab) eventually(js string) {
	b.t.Helper()
	eval[bool](b, `window.pawlSettled = false, (`+js+`).then(() => window.pawlSettled = true), true`)
	b.await(js, `window.pawlSettled`)
}

// red returns how many pixels of a canvas have the colour of violations, and are in the
// window.
func (b *tab) red(selector string) int {
	b.t.Helper()
	return eval[int](b, `(() => {
		const canvas = document.querySelector(`+quote(selector)+`), box = canvas.getBoundingClientRect(), c = canvas.getContext("2d");
		const probe = Object.assign(document.createElement("canvas"), {width: 1, height: 1}).getContext("2d");
		probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--bad").trim();
		probe.fillRect(0, 0, 1, 1);
		const bad = probe.getImageData(0, 0, 1, 1).data, all = c.getImageData(0, 0, canvas.width, canvas.height), fine = canvas.height / box.height;
		let n = 0;
		for (let at = 0; at < all.data.length; at += 4) {
			const y = box.top + Math.floor(at / 4 / canvas.width) / fine;
			if (y >= 0 && y < innerHeight && bad.every((v, i) => Math.abs(all.data[at + i] - v) < 3)) n++;
		}
		return n;
	})()`)
}

// pictureOf returns what a canvas shows, to be compared.
func (b *tab) pictureOf(selector string) string {
	b.t.Helper()
	b.frame()
	return eval[string](b, `document.querySelector(`+quote(selector)+`).toDataURL()`)
}

func (b *tab) shown() string {
	b.t.Helper()
	return eval[string](b, `document.getElementById("shown").textContent`)
}

func (b *tab) tip() string {
	b.t.Helper()
	return eval[string](b, `document.getElementById("tip").hidden ? "" : document.getElementById("tip").innerText`)
}

// firstViolation returns the gravest violation, and the selector of its name's timeline.
func (r *report) firstViolation(b *tab) (*history.Violation, string) {
	first := r.Report.Gravest()
	n := eval[int](b, `JSON.parse(document.getElementById("data").textContent).violations[0].name`)
	return first, fmt.Sprintf(".lanes[data-name='%d']", n)
}

// The gravest violation is seen without scrolling, on a screen and on a telephone, and in
// its name's timeline once that is reached.
func TestReportShowsTheFirstViolation(t *testing.T) {
	t.Parallel()
	r := newReport(10_000, true)
	address := r.write(t)
	b := newTab(t)
	for _, size := range [][2]int64{{1280, 900}, {360, 740}} {
		b.resize(size[0], size[1])
		b.openReport(address)
		first, lanes := r.firstViolation(b)
		b.awaitShown(first.Text)
		b.awaitShown(string(first.Rule))
		if got := eval[string](b, `document.getElementById("verdict").innerText`); !strings.Contains(got, "Violated") {
			t.Errorf("%v: the verdict is %q", size, got)
		}
		// The outlines of its holds are most of it, if they are as wide as they should be.
		if n := b.red("#firstlanes canvas"); n < int(size[0])/2 {
			t.Errorf("%v: %d pixels of the violation are visible at load", size, n)
		} else {
			t.Logf("%v: %d pixels of the violation are visible at load", size, n)
		}
		b.do(chromedp.Click(`a[data-violation="0"]`))
		b.frame()
		if n := b.red(lanes + " canvas"); n < 50 {
			t.Errorf("%v: %d pixels of the violation are visible after the link", size, n)
		}
		token := r.History.Attempts[first.Attempts[0]].Token
		if got := b.tip(); !strings.Contains(got, fmt.Sprintf("token %d", token)) || !strings.Contains(got, "violation 1") {
			t.Errorf("%v: beside the attempt is %q", size, got)
		}
		if os.Getenv("PAWL_SCREENSHOTS") != "" {
			b.write(fmt.Sprintf("report-tip-%d", size[0]), b.picture(false))
		}
	}
	b.sameDocument()
}
