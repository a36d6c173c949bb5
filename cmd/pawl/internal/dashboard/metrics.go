package dashboard

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// classCounts are the metrics of one class.
type classCounts struct {
	held, waiting int
	oldest        time.Duration
}

// metrics answers in the text format of Prometheus. Counts of locks are left out while
// the store cannot be reached: they are not known then.
func (d *Dashboard) metrics(w http.ResponseWriter, _ *http.Request) {
	s, _ := d.hub.current()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	var m metricsText
	reachable := 0.0
	if s.store() == storeOK {
		reachable = 1
	}
	m.add("pawl_store_reachable", "gauge", "Whether the last listing of the store worked.", "", reachable)
	m.add("pawl_listings_total", "counter", "Listings of the store since the start.", "", float64(s.listings))
	m.add("pawl_listing_errors_total", "counter", "Listings of the store that failed.", "", float64(s.failures))
	if s.listings > 0 {
		m.add("pawl_listing_seconds", "gauge", "Duration of the last listing of the store.", "", s.took.Seconds())
	}
	if reachable == 1 {
		names, counts := d.count(s.snap, time.Now())
		for i, name := range names {
			m.add("pawl_locks_held", "gauge", "Claims that are held, by class.", label(name), float64(counts[i].held))
		}
		for i, name := range names {
			m.add("pawl_locks_waiting", "gauge", "Claims that wait, by class.", label(name), float64(counts[i].waiting))
		}
		for i, name := range names {
			m.add("pawl_oldest_wait_seconds", "gauge", "Longest time that a claim has been waiting, by class.", label(name), counts[i].oldest.Seconds())
		}
	}
	_, _ = w.Write([]byte(m.b.String()))
}

// count returns the classes, the default class "" last unless it is among those that
// were given, with their counts.
func (d *Dashboard) count(s *snapshot, now time.Time) (names []string, counts []classCounts) {
	index := map[string]int{}
	at := func(name string) int {
		i, ok := index[name]
		if !ok {
			i = len(names)
			index[name] = i
			names, counts = append(names, name), append(counts, classCounts{})
		}
		return i
	}
	for _, c := range d.o.Classes {
		at(c.Name)
	}
	at("")
	for _, l := range s.lines {
		c := &counts[at(d.classOf(l.name))]
		c.waiting += l.waiting
		c.held += len(l.entries) - l.waiting
		for _, e := range l.entries {
			if !e.Held {
				c.oldest = max(c.oldest, e.Since+now.Sub(l.read))
			}
		}
	}
	return names, counts
}

// classOf returns the class of a name.
func (d *Dashboard) classOf(name string) string {
	for _, c := range d.o.Classes {
		if c.Selection.Wants(name) {
			return c.Name
		}
	}
	return ""
}

// A metricsText collects samples. Those of one metric follow each other.
type metricsText struct {
	b    strings.Builder
	last string
}

func (m *metricsText) add(name, kind, help, labels string, value float64) {
	if m.last != name {
		fmt.Fprintf(&m.b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
		m.last = name
	}
	fmt.Fprintf(&m.b, "%s%s %s\n", name, labels, strconv.FormatFloat(value, 'g', -1, 64))
}

// label returns the label of a class as the format escapes it.
func label(class string) string {
	return `{class="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(class) + `"}`
}
