package dashboard

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// held and waits make entries for models: a mutex's claims of a session.
func held(session, name string, since time.Duration) driver.Entry {
	e := waits(session, name, since)
	e.Held, e.Fence = true, 7
	return e
}

func waits(session, name string, since time.Duration) driver.Entry {
	return driver.Entry{
		Claim:   driver.Claim{ID: session + " " + name, Name: name, Need: 1, Limit: 1, Note: session + "@host pid 1 test"},
		Session: session, Since: since, Left: 10 * time.Second,
	}
}

// reader and writer make the claims of an RWMutex.
func reader(e driver.Entry) driver.Entry { e.Limit = driver.All; return e }
func writer(e driver.Entry) driver.Entry { e.Need, e.Limit = driver.All, driver.All; return e }

// snap makes a snapshot of lines.
func snap(read time.Time, entries ...driver.Entry) *snapshot {
	byName := map[string][]driver.Entry{}
	for _, e := range entries {
		byName[e.Name] = append(byName[e.Name], e)
	}
	lines := map[string]*line{}
	for name, all := range byName {
		lines[name] = newLine(name, all, read, nil)
	}
	return newSnapshot(read, lines)
}

func names(lines []*line) (all []string) {
	for _, l := range lines {
		all = append(all, l.name)
	}
	return all
}

func TestLinesAreSortedByTheWaitingTheirHoldersCause(t *testing.T) {
	s := snap(time.Now(),
		held("a", "quiet", time.Hour), held("b", "also quiet", time.Minute),
		held("a", "one waiter", time.Second), waits("c", "one waiter", 50*time.Second),
		held("a", "two waiters", time.Second), waits("c", "two waiters", 30*time.Second), waits("d", "two waiters", 30*time.Second),
		held("a", "alike", time.Second), waits("c", "alike", 50*time.Second))
	want := []string{"two waiters", "alike", "one waiter", "also quiet", "quiet"}
	if got := names(s.lines); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFilterTakesPatternsAndParts(t *testing.T) {
	s := snap(time.Now(), held("a", "orders/42", 0), held("a", "orders/7", 0), held("a", "Big Orders", 0), held("a", "[odd", 0), held("a", ".pawl/election/jobs", 0))
	for query, want := range map[string][]string{
		"":           {".pawl/election/jobs", "Big Orders", "[odd", "orders/42", "orders/7"},
		"orders/*":   {"orders/42", "orders/7"},
		"orders/?":   {"orders/7"},
		"ORDER":      {"Big Orders", "orders/42", "orders/7"},
		"rders/4":    {"orders/42"},
		"[odd":       {"[odd"}, // not a pattern, but a part
		"jobs":       {".pawl/election/jobs"},
		"job?":       {".pawl/election/jobs"},
		"no such":    nil,
		"pawl/elect": nil, // elections are known by their own name
	} {
		got := names(filterLines(s.lines, query))
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%q selects %q, want %q", query, got, want)
		}
	}
}

func TestAgesGoOnAndStandStillWhileTheStoreIsAway(t *testing.T) {
	read := time.Now().Add(-time.Minute)
	s := &state{snap: snap(read, held("a", "x", 5*time.Second))}
	row := buildLines(nil, s, time.Now(), nil).Body.(linesBody).Rows[0].Holders[0]
	if row.Age != "1m05s" || row.Left != "0s" || row.Percent != "0.0%" || !row.Low {
		t.Errorf("after a minute: %+v", row)
	}
	s.away = time.Now()
	row = buildLines(nil, s, time.Now(), nil).Body.(linesBody).Rows[0].Holders[0]
	if row.Age != "5s" || row.Left != "10s" || row.Percent != "100.0%" || row.Low {
		t.Errorf("while the store is away: %+v", row)
	}
}

func TestTheBarShowsTheShareOfTheLongestLeaseSeen(t *testing.T) {
	now := time.Now()
	e := held("a", "x", 0)
	e.Left = 30 * time.Second
	before := newLine("x", []driver.Entry{e}, now, nil)
	e.Left = 20 * time.Second
	row := newClaimRow(place{newLine("x", []driver.Entry{e}, now, before), 0}, now)
	if row.Percent != "66.7%" {
		t.Errorf("20 s of 30 s are shown as %s", row.Percent)
	}
}

func TestALongListHasPages(t *testing.T) {
	var all []driver.Entry
	for _, a := range "abcdefghijklmno" {
		for _, b := range "abcdefghijklmno" {
			all = append(all, held("s", string(a)+string(b), 0))
		}
	}
	s := &state{snap: snap(time.Now(), all...)}
	seen, link := 0, "/?"
	for range 5 {
		u, err := url.Parse(link)
		if err != nil {
			t.Fatal(err)
		}
		b := buildLines(nil, s, time.Now(), u.Query()).Body.(linesBody)
		seen += len(b.Rows)
		if len(b.Rows) > rowsPerPage {
			t.Errorf("%d rows on a page", len(b.Rows))
		}
		if link = b.Next; link == "" {
			break
		}
	}
	if seen != 225 {
		t.Errorf("the pages show %d names, want 225", seen)
	}
	if b := buildLines(nil, s, time.Now(), url.Values{"from": {"900"}}).Body.(linesBody); len(b.Rows) != 25 || b.First != 201 || b.Previous != "./?from=100" {
		t.Errorf("beyond the end: %d rows from %d, previous %q", len(b.Rows), b.First, b.Previous)
	}
}

func TestALongQueueIsCutAndSaid(t *testing.T) {
	all := []driver.Entry{held("s", "x", 0)}
	for _, a := range strings.Split(strings.Repeat("w ", 30), " ")[:30] {
		e := waits(a, "x", 0)
		e.ID += string(rune('a' + len(all)))
		all = append(all, e)
	}
	row := newLineRow(snap(time.Now(), all...).lines[0], time.Now(), claimsPerRow)
	if len(row.Waiters) != claimsPerRow || row.MoreWaiters != 30-claimsPerRow {
		t.Errorf("%d waiters and %d more", len(row.Waiters), row.MoreWaiters)
	}
	if row.Waiters[0].Place != 1 || row.Waiters[11].Place != 12 {
		t.Errorf("places %d and %d", row.Waiters[0].Place, row.Waiters[11].Place)
	}
}

// crowd is one holder and many waiters of one name, each of a session of its own.
func crowd(name, note string, n int) []driver.Entry {
	all := make([]driver.Entry, n)
	for i := range all {
		all[i] = waits(fmt.Sprintf("session%025d", i), name, time.Minute)
		all[i].ID, all[i].Note = fmt.Sprintf("%032x", i), note
	}
	all[0].Held, all[0].Fence = true, 1
	return all
}
