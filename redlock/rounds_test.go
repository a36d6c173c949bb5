package redlock_test

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl"
)

// Where nobody else wants the name, the nodes grant the token that was proposed,
// and one round is enough.
func TestFewGrantsNeedASecondRound(t *testing.T) {
	t.Parallel()
	f := newField(t, 5, brief)
	e := open(t, addrs(f.servers), f.query)
	c := pawl.New(e, pawl.WithTTL(5*time.Second))
	t.Cleanup(func() { _, _ = c.Close(), e.Close() })
	const grants = 400
	for range grants {
		unlock(t, lock(t, c, "name"))
	}
	seconds := e.(interface{ SecondRounds() uint64 }).SecondRounds()
	t.Logf("%d of %d grants needed a second round", seconds, grants)
	if seconds > grants/20 {
		t.Errorf("%d of %d grants needed a second round, at most 5 %% should", seconds, grants)
	}
}
