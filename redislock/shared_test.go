package redislock_test

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/testserver"
)

// A reader with a long TTL leaves, and one with a short TTL dies. The name must be free when
// the short TTL is over, without another call on it.
func TestADeadReaderDoesNotKeepTheNameForAnothersTTL(t *testing.T) {
	t.Parallel()
	const short = 500 * time.Millisecond
	s := testserver.Redis(t)
	at := newConsole(t, s.Addr())
	long, brief := open(t, "redis://"+s.Addr(), pawl.WithTTL(time.Minute)), open(t, "redis://"+s.Addr(), pawl.WithTTL(short), pawl.WithoutRenewal())
	for _, order := range []string{"long first", "short first"} {
		readers := []*pawl.Client{long, brief}
		if order == "short first" {
			readers = []*pawl.Client{brief, long}
		}
		leases := map[*pawl.Client]*pawl.Lease{}
		for _, c := range readers {
			l, err := c.RWMutex("name").RLock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			leases[c] = l
		}
		died := time.Now()
		unlock(t, leases[long])
		until(t, short+5*time.Second, "free of the dead reader", func() bool { return at.do("EXISTS", "pawl:name", "pawl:\x01hname") == "0" })
		if gone := time.Since(died); gone > 10*time.Second {
			t.Errorf("%s: the dead reader's hold ended after %v", order, gone)
		}
	}
}
