package holdcheck

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/memlock"
)

// Two stores that know nothing of each other grant one name twice.
func TestTwoThatHoldAreReported(t *testing.T) {
	t.Parallel()
	err := testserver.RunOutsideTest(func(fake testing.TB) {
		Contend(fake, "name", client(t), client(t)).GoesOn("at first", time.Minute, serving(fake))
	})
	if err == nil || !strings.Contains(err.Error(), "two hold") {
		t.Errorf("two that held at once were not reported: %v", err)
	}
}

func TestClientsOfOneStoreHoldInTurn(t *testing.T) {
	t.Parallel()
	e := memlock.New()
	one, other := pawl.New(e), pawl.New(e)
	t.Cleanup(func() { one.Close(); other.Close() })
	Contend(t, "name", one, other).GoesOn("at first", time.Minute, serving(t))
}

func client(t *testing.T) *pawl.Client {
	c := pawl.New(memlock.New())
	t.Cleanup(func() { c.Close() })
	return c
}

func serving(t testing.TB) *testserver.Service {
	return testserver.Serving(t, func(context.Context) error { return nil })
}
