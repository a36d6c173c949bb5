//go:build !race

package dashboard

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Twenty thousand claims on one name took seconds for each listing, and again for
// each tree.
func TestNoRaceALongLineIsReadAndShownInTime(t *testing.T) {
	t.Parallel()
	const most = 2 * time.Second // it takes a hundredth of that
	claims, now := crowd("x", "ana@host-7 pid 4121 deploy.sh", 20_000), time.Now()
	readers := crowd("x", "", 20_000) // each behind the one ahead of it
	for i := range readers {
		readers[i].Limit = driver.All
	}
	readers[1].Need = driver.All
	before, h := newLine("x", claims, now, nil), newHistory(now, maxSpans, maxSpansOfName)
	after := newLine("x", claims[1:], now, nil)
	for what, do := range map[string]func(){
		"a listing":   func() { newLine("x", claims, now, before) },
		"the history": func() { h.compare(before, after, now) },
		"the tree":    func() { buildTree(nil, &state{snap: snap(now, claims...)}, now, url.Values{}) },
		"a long path": func() { buildTree(nil, &state{snap: snap(now, readers...)}, now, url.Values{}) },
	} {
		start := time.Now()
		if do(); time.Since(start) > most {
			t.Errorf("%s takes %v", what, time.Since(start))
		}
	}
}

// Each open page is rendered and sent again every second.
func TestNoRacePagesOfManyClaimsWithLongNotesAreBounded(t *testing.T) {
	t.Parallel()
	note, now := strings.Repeat(`"`, driver.MaxNote), time.Now()
	lines := map[string]*line{"x": newLine("x", crowd("x", note, 20_000), now, nil)}
	for i := range rowsPerPage {
		name := fmt.Sprint("name ", i)
		lines[name] = newLine(name, crowd(name, note, 30), now, nil)
	}
	d, s := New(Options{}), &state{snap: newSnapshot(now, lines)}
	for _, c := range []struct {
		v      view
		q      url.Values
		mostMB float64
	}{{linesView, url.Values{}, 3}, {treeView, url.Values{}, 1}, {nameView, url.Values{"name": {"x"}}, 4}} {
		event, _ := d.event(s, c.v, c.q)
		if size := float64(len(event)) / (1 << 20); size > c.mostMB || size < 0.01 {
			t.Errorf("%s: %.1f MiB", c.v.path, size)
		}
	}
}
