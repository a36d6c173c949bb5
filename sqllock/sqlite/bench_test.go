package sqlite

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

const benchID = "0123456789abcdef0123456789abcdef"

func benchSession(b testing.TB, e *Engine) driver.Session {
	b.Helper()
	s, err := e.Open(b.Context(), driver.SessionOptions{ID: benchID, TTL: 10 * time.Second})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// hold is one Enter and one Leave of a free name.
func hold(b testing.TB, s driver.Session, try int) {
	c := driver.Claim{ID: benchID, Try: try, Name: "jobs/42", Need: 1, Limit: 1, Queue: true, Note: "bench"}
	st, err := s.Enter(b.Context(), c)
	if err != nil || !st.Held {
		b.Fatal(st, err)
	}
	if err := s.Leave(b.Context(), c); err != nil {
		b.Fatal(err)
	}
}

// bareUpdates returns two updates of one row by its key, prepared, on the
// connection that the engine itself writes on.
func bareUpdates(b testing.TB, e *Engine) func() {
	b.Helper()
	w := e.store.writer
	if err := w.db.Exec(`CREATE TABLE bare (name TEXT PRIMARY KEY NOT NULL, owner TEXT NOT NULL, until INTEGER NOT NULL) STRICT, WITHOUT ROWID;
		INSERT INTO bare VALUES ('jobs/42', '', 0)`); err != nil {
		b.Fatal(err)
	}
	s, _, err := w.db.Prepare(`UPDATE bare SET owner = ?1, until = ?2 WHERE name = ?3`)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	n := int64(0)
	update := func(owner string) {
		n++
		s.BindText(1, owner)
		s.BindInt64(2, n)
		s.BindText(3, "jobs/42")
		if err := s.Exec(); err != nil {
			b.Fatal(err)
		}
	}
	return func() { update(benchID); update("") }
}

func BenchmarkHold(b *testing.B) {
	s := benchSession(b, openFile(b, filepath.Join(b.TempDir(), "pawl.db")))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		hold(b, s, n)
	}
	b.ReportMetric(2, "statements/op")
}

func BenchmarkBareUpdates(b *testing.B) {
	update := bareUpdates(b, openFile(b, filepath.Join(b.TempDir(), "pawl.db")))
	b.ReportAllocs()
	for b.Loop() {
		update()
	}
	b.ReportMetric(2, "statements/op")
}

// BenchmarkRatio measures both in short turns, so that whatever else the machine
// does falls on both alike. The median turn has no checkpoint in it, which
// falls on whoever happens to fill the log.
func BenchmarkRatio(b *testing.B) {
	e := openFile(b, filepath.Join(b.TempDir(), "pawl.db"))
	s, update := benchSession(b, e), bareUpdates(b, e)
	var holds, bares time.Duration
	var ratios []float64
	try := 0
	for b.Loop() {
		start := time.Now()
		for range 20 {
			try++
			hold(b, s, try)
		}
		middle := time.Now()
		for range 20 {
			update()
		}
		h, u := middle.Sub(start), time.Since(middle)
		holds, bares, ratios = holds+h, bares+u, append(ratios, float64(h)/float64(u))
	}
	slices.Sort(ratios)
	b.ReportMetric(float64(holds.Nanoseconds())/float64(try), "ns/hold")
	b.ReportMetric(float64(bares.Nanoseconds())/float64(try), "ns/bare")
	b.ReportMetric(float64(holds)/float64(bares), "ratio")
	b.ReportMetric(ratios[len(ratios)/2], "median-ratio")
}

// BenchmarkFailedTry shows what trying a busy name costs; it writes nothing.
func BenchmarkFailedTry(b *testing.B) {
	e := openFile(b, filepath.Join(b.TempDir(), "pawl.db"))
	s := benchSession(b, e)
	c := driver.Claim{ID: benchID, Try: 1, Name: "jobs/42", Need: 1, Limit: 1, Queue: true}
	if _, err := s.Enter(b.Context(), c); err != nil {
		b.Fatal(err)
	}
	c.ID, c.Queue = "f"+benchID[1:], false
	b.ReportAllocs()
	for b.Loop() {
		if st, err := s.Enter(b.Context(), c); err != nil || st.Held {
			b.Fatal(st, err)
		}
	}
}

// BenchmarkLine shows what a place at the end of a long line costs.
func BenchmarkLine(b *testing.B) {
	for _, n := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			e := openFile(b, filepath.Join(b.TempDir(), "pawl.db"))
			s := benchSession(b, e)
			for i := range n {
				c := driver.Claim{ID: fmt.Sprintf("%032x", i), Try: 1, Name: "jobs/42", Need: 1, Limit: 1, Queue: true}
				if _, err := s.Enter(b.Context(), c); err != nil {
					b.Fatal(err)
				}
			}
			c := driver.Claim{ID: benchID, Name: "jobs/42", Need: 1, Limit: 1, Queue: true}
			for b.Loop() {
				c.Try++
				if _, err := s.Enter(b.Context(), c); err != nil {
					b.Fatal(err)
				}
				if err := s.Leave(b.Context(), c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
