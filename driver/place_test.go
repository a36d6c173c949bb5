package driver_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/pawl-go/pawl/driver"
)

// A model is the admission rule in another form: it admits the claims of a line one
// after the other. An exclusive claim is admitted if no claim was admitted before; a
// shared one if no exclusive claim was and enough units are free. It is slow and has no
// sums over the line.
type model struct {
	admitted []driver.Claim
}

func (m *model) admit(c driver.Claim) bool {
	if len(m.admitted) > 0 {
		free := uint64(c.Limit)
		for _, in := range m.admitted {
			if c.Exclusive() || in.Exclusive() || uint64(in.Need) > free {
				return false
			}
			free -= uint64(in.Need)
		}
		if uint64(c.Need) > free {
			return false
		}
	}
	m.admitted = append(m.admitted, c)
	return true
}

// admitted returns how many claims of the row are held.
func admitted(row []driver.Claim) int {
	var m model
	for i, c := range row {
		if !m.admit(c) {
			return i
		}
	}
	return len(row)
}

// blocker returns the nearest claim that would block the last one of the row even if the
// two were alone.
func blocker(row []driver.Claim) string {
	last := row[len(row)-1]
	for i := len(row) - 2; i >= 0; i-- {
		if admitted([]driver.Claim{row[i], last}) < 2 {
			return row[i].ID
		}
	}
	return ""
}

func TestPlaceAgreesWithTheModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 20_000 {
		row := randomRow(r)
		in := admitted(row)
		line := entries(row)
		for i, c := range row {
			held, ahead, block, ok := driver.Place(line, c.ID)
			wantHeld, wantBlock := i < in, ""
			if !wantHeld {
				wantBlock = blocker(row[:i+1])
			}
			if held != wantHeld || ahead != i || block != wantBlock || !ok {
				t.Fatalf("Place(%s, %s) = %v, %d, %q, %v; the model says %v, %d, %q", show(row), c.ID, held, ahead, block, ok, wantHeld, i, wantBlock)
			}
		}
	}
}

// Later claims change nothing, and no claim is held behind one that waits.
func TestPlaceDependsOnlyOnTheClaimsAhead(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 5_000 {
		row := randomRow(r)
		line := entries(row)
		waits := false
		for i, c := range row {
			held, ahead, block, _ := driver.Place(line, c.ID)
			held2, ahead2, block2, _ := driver.Place(line[:i+1], c.ID)
			if held != held2 || ahead != ahead2 || block != block2 {
				t.Fatalf("%s: the claims behind %s change its standing", show(row), c.ID)
			}
			if held && waits {
				t.Fatalf("%s: %s is held behind a claim that waits", show(row), c.ID)
			}
			waits = waits || !held
		}
	}
}

func TestADepartureEndsNoOtherHold(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 5_000 {
		row := randomRow(r)
		gone := r.IntN(len(row))
		before := entries(row)
		after := append(entries(row[:gone]), entries(row[gone+1:])...)
		for i, c := range row {
			if i == gone {
				continue
			}
			was, _, _, _ := driver.Place(before, c.ID)
			is, _, _, _ := driver.Place(after, c.ID)
			if was && !is {
				t.Fatalf("%s: %s lost its hold when %s left", show(row), c.ID, row[gone].ID)
			}
		}
	}
}

func TestPlace(t *testing.T) {
	const all = driver.All
	for _, c := range []struct {
		about  string
		row    [][2]int // need of limit
		held   int      // how many are
		blocks []string // per claim
	}{
		{"a mutex", [][2]int{{1, 1}, {1, 1}, {1, 1}}, 1, []string{"", "0", "1"}},
		{"readers", [][2]int{{1, all}, {1, all}, {1, all}}, 3, []string{"", "", ""}},
		{"a writer among readers", [][2]int{{1, all}, {all, all}, {1, all}}, 1, []string{"", "0", "1"}},
		{"a writer first", [][2]int{{all, all}, {1, all}, {1, all}}, 1, []string{"", "0", "0"}},
		{"two writers, whose sum overflows 32 bits", [][2]int{{all, all}, {all, all}}, 1, []string{"", "0"}},
		{"2 and 2 of 3", [][2]int{{2, 3}, {2, 3}, {1, 3}}, 1, []string{"", "0", ""}},
		{"only the sum is in the way", [][2]int{{1, 3}, {1, 3}, {2, 3}}, 2, []string{"", "", ""}},
		{"any order of five units", [][2]int{{2, 5}, {1, 5}, {2, 5}, {1, 5}}, 3, []string{"", "", "", ""}},
		{"a mutex and a whole semaphore", [][2]int{{1, 1}, {3, 3}, {all, all}}, 1, []string{"", "0", "1"}},
		{"a unit behind a mutex", [][2]int{{1, 1}, {1, 5}, {1, 5}}, 1, []string{"", "0", "0"}},
		{"a mutex behind a unit", [][2]int{{1, 5}, {1, 1}}, 1, []string{"", "0"}},
	} {
		t.Run(c.about, func(t *testing.T) {
			var row []driver.Claim
			for i, size := range c.row {
				row = append(row, driver.Claim{ID: strconv.Itoa(i), Need: size[0], Limit: size[1]})
			}
			for i, want := range c.blocks {
				held, ahead, block, ok := driver.Place(entries(row), strconv.Itoa(i))
				if held != (i < c.held) || ahead != i || block != want || !ok {
					t.Errorf("claim %d: held %v, ahead %d, blocker %q, ok %v; want held %v, blocker %q", i, held, ahead, block, ok, i < c.held, want)
				}
			}
		})
	}
}

func TestPlaceOfAnUnknownClaimIsNotOK(t *testing.T) {
	for _, line := range [][]driver.Entry{nil, entries([]driver.Claim{{ID: "a", Need: 1, Limit: 1}})} {
		if held, _, block, ok := driver.Place(line, "b"); held || ok || block != "" {
			t.Errorf("Place of an unknown claim: held %v, blocker %q, ok %v", held, block, ok)
		}
	}
}

func TestLevelsHaveNames(t *testing.T) {
	for level, want := range map[driver.Level]string{
		driver.None: "none", driver.Volatile: "volatile", driver.Durable: "durable", driver.Level(math.MaxInt8): "unknown",
	} {
		if got := level.String(); got != want {
			t.Errorf("level %d is %q, not %q", int(level), got, want)
		}
	}
}

// A reader holds, a writer waits for it, and a second reader waits for the
// writer: first come, first served, so the writer is not starved.
func ExamplePlace() {
	line := []driver.Entry{
		{Claim: driver.Claim{ID: "reader", Need: 1, Limit: driver.All}},
		{Claim: driver.Claim{ID: "writer", Need: driver.All, Limit: driver.All}},
		{Claim: driver.Claim{ID: "late", Need: 1, Limit: driver.All}},
	}
	for _, e := range line {
		held, ahead, blocker, _ := driver.Place(line, e.ID)
		fmt.Printf("%s: held %v, ahead %d, blocker %q\n", e.ID, held, ahead, blocker)
	}
	// Output:
	// reader: held true, ahead 0, blocker ""
	// writer: held false, ahead 1, blocker "reader"
	// late: held false, ahead 2, blocker "writer"
}

// randomRow returns claims with one shared limit and exclusive claims of any limit among
// them, few enough that chance finds the edge cases.
func randomRow(r *rand.Rand) []driver.Claim {
	limit := 2 + r.IntN(5)
	if r.IntN(4) == 0 {
		limit = driver.All
	}
	whole := []int{1, 2, 3, limit, driver.All}
	row := make([]driver.Claim, 1+r.IntN(8))
	for i := range row {
		c := driver.Claim{ID: strconv.Itoa(i), Need: 1 + r.IntN(min(limit, 6)), Limit: limit}
		if r.IntN(4) == 0 {
			c.Limit = whole[r.IntN(len(whole))]
			c.Need = c.Limit
		}
		row[i] = c
	}
	return row
}

func entries(row []driver.Claim) []driver.Entry {
	line := make([]driver.Entry, len(row))
	for i, c := range row {
		line[i].Claim = c
	}
	return line
}

func show(row []driver.Claim) string {
	var sizes []string
	for _, c := range row {
		sizes = append(sizes, fmt.Sprintf("%s: %d of %d", c.ID, c.Need, c.Limit))
	}
	return fmt.Sprint(sizes)
}
