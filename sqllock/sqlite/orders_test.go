package sqlite

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// evict breaks the claim that holds the name.
func evict(t *testing.T, e *Engine, name string) {
	t.Helper()
	line, err := e.Line(t.Context(), name)
	if err != nil || len(line) == 0 || !line[0].Held {
		t.Fatalf("the line: %+v, %v", line, err)
	}
	if err := e.Evict(t.Context(), line[0]); err != nil {
		t.Fatal(err)
	}
}

// The row of the name is swept and made anew between a Leave whose reply was lost
// and its repetition: what stands there then is another's.
func TestARepeatedLeaveEndsNoOtherClaim(t *testing.T) {
	t.Parallel()
	ck := bootedClock("boot", "s", 1)
	e := openFile(t, filepath.Join(t.TempDir(), "pawl.db"), withClock(ck))
	first, second := session(t, e, 24*time.Hour), session(t, e, 24*time.Hour)
	enter(t, first, mutex("first"))
	if err := first.Leave(t.Context(), mutex("first")); err != nil {
		t.Fatal(err)
	}
	ck.micros.Add(2 * time.Hour.Microseconds())
	if err := e.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := e.text(t, "SELECT count(*) FROM pawl_head WHERE name <> ''"); got != "0" {
		t.Fatalf("%s rows are left", got)
	}
	enter(t, second, mutex("second"))
	if err := first.Leave(t.Context(), mutex("first")); !errors.Is(err, driver.ErrGone) {
		t.Errorf("the repeated Leave: %v", err)
	}
	c := mutex("third")
	c.Queue = false
	if st := enter(t, first, c); st.Held {
		t.Error("a third holds beside the second")
	}
	var out [1]driver.Standing
	if err := second.Beat(t.Context(), []driver.Claim{mutex("second")}, out[:]); err != nil || !out[0].Held {
		t.Errorf("the second: %+v, %v", out[0], err)
	}
}

// An Enter whose reply was lost is repeated after an operator broke the claim and
// another holds: it stands behind, and no beat takes it for the holder.
func TestAnEnterThatIsRepeatedAfterAnEvictionHoldsNothing(t *testing.T) {
	t.Parallel()
	e := openFile(t, filepath.Join(t.TempDir(), "pawl.db"))
	first, second := session(t, e, time.Minute), session(t, e, time.Minute)
	was := enter(t, first, mutex("first"))
	evict(t, e, "job")
	var out [1]driver.Standing
	if err := first.Beat(t.Context(), []driver.Claim{mutex("first")}, out[:]); err != nil || !out[0].Gone {
		t.Errorf("a beat after the eviction: %+v, %v", out[0], err)
	}
	rival := enter(t, second, mutex("second"))
	if st := enter(t, first, mutex("first")); st.Held {
		t.Errorf("both hold: %+v", st)
	}
	out[0] = driver.Standing{}
	if err := first.Beat(t.Context(), []driver.Claim{mutex("first")}, out[:]); err != nil || out[0].Held {
		t.Errorf("a beat beside the rival: %+v, %v", out[0], err)
	}
	if err := second.Leave(t.Context(), mutex("second")); err != nil {
		t.Fatal(err)
	}
	awaitHeld(t, first, mutex("first"))
	if st := enter(t, first, mutex("first")); !st.Held || st.Token <= rival.Token || st.Token <= was.Token {
		t.Errorf("its turn: %+v after tokens %d and %d", st, was.Token, rival.Token)
	}
}
