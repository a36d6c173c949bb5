package browser

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawl-go/pawl/internal/testserver"
)

// crowd are names, each with a holder and a waiter.
const crowd = 10_000

// The first page has a second on a quiet machine with two processors. On one that is
// busy or slower it has four times as long as a page with a single row, measured at the
// same time. Not parallel: it measures.
func TestFirstPageOfTenThousandNames(t *testing.T) {
	s := newStore(t, "redis://"+testserver.Redis(t).Addr())
	s.fill(crowd)
	started := time.Now()
	v := s.serve()
	b := newTab(t)
	b.open(v.lines())
	b.await("rows", `document.querySelectorAll("#lines .waiter").length > 0`)
	t.Logf("rows are shown %v after the start of pawl serve", time.Since(started))
	if rows := len(b.shownLines()); rows < 20 || rows > 200 {
		t.Errorf("the first page has %d rows", rows)
	}
	if text := eval[string](b, `document.querySelector("main").innerText`); strings.Count(text, strconv.Itoa(crowd)) < 3 {
		t.Errorf("the page does not say how many are held, wait, and are in line: %.300s", text)
	}
	const loads, limit, slower = 5, time.Second, 4
	var large, small []time.Duration
	for range loads {
		large = append(large, timeOfPage(t, v.lines()))
		small = append(small, timeOfPage(t, v.filter("orders/00001")))
	}
	slices.Sort(large)
	slices.Sort(small)
	t.Logf("first pages were painted after %v, pages with one row after %v", large, small)
	if took := large[loads/2]; took > max(limit, slower*small[loads/2]) {
		t.Errorf("the first page is painted after %v, one with a single row after %v", took, small[loads/2])
	}
	b.sameDocument()
}

// timeOfPage returns how long a new tab takes to show a page.
func timeOfPage(t *testing.T, url string) time.Duration {
	t.Helper()
	b := newTab(t)
	defer b.close()
	b.open(url)
	b.await("rows", `document.querySelectorAll("#lines .waiter").length > 0`)
	return b.painted()
}

// painted returns the time from the beginning of the navigation to the first picture
// of the page, which has its rows: they are in the document from the beginning.
func (b *tab) painted() time.Duration {
	b.t.Helper()
	b.await("a painted page", `performance.getEntriesByName("first-contentful-paint").length > 0`)
	ms := eval[float64](b, `performance.getEntriesByName("first-contentful-paint")[0].startTime`)
	return time.Duration(ms * float64(time.Millisecond))
}

// fill makes n names with a holder and a waiter each, by a process that ends with the
// test.
func (s *store) fill(n int) {
	s.t.Helper()
	s.start("crowd", s.url, strconv.Itoa(n)).awaitOutput("ready\n")
}

// However many pages are open, the store is listed once a second. The store itself
// counts: one listing costs it as many SCAN as a listing by the test does.
func TestManyPagesCostOneListingASecond(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	s := newStore(t, "redis://"+server.Addr())
	s.fill(10)
	admin := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer admin.Close()
	before := scans(t, admin)
	for _, err := range s.seen.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
	}
	perListing := scans(t, admin) - before
	if perListing == 0 {
		t.Fatal("a listing does not scan")
	}
	v := s.serve()
	pages := []string{v.lines(), v.lines(), v.lines(), v.tree(), v.name("orders/00001")}
	for _, page := range pages {
		b := newTab(t)
		b.open(page)
		b.await("a claim", `document.querySelector("[data-id], [data-session]")`)
	}
	const seconds = 5
	begun, before := time.Now(), scans(t, admin)
	awaitGo(t, "some listings", func() bool { return time.Since(begun) > seconds*time.Second })
	listings := float64(scans(t, admin)-before) / float64(perListing)
	took := time.Since(begun)
	t.Logf("%d pages: %.1f listings in %v, %d SCAN each", len(pages), listings, took, perListing)
	if most := took.Seconds() + 1; listings > most {
		t.Errorf("%.1f listings in %v", listings, took)
	}
	if listings < 1 {
		t.Error("the store was not listed at all")
	}
}

var scanCalls = regexp.MustCompile(`cmdstat_scan:calls=(\d+)`)

// scans returns how often the server was asked to SCAN.
func scans(t *testing.T, admin *redis.Client) int {
	t.Helper()
	stats, err := admin.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	m := scanCalls.FindStringSubmatch(stats)
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
