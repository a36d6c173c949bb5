package natslock

import (
	"math"
	"testing"
	"time"

	"github.com/pawl-go/pawl/internal/testserver"
)

// The server adds the TTL to the time in nanoseconds.
func TestARecordThatIsKeptForCenturiesIsKept(t *testing.T) {
	t.Parallel()
	e := New(connect(t, testserver.NATS(t).Addr()))
	defer e.Close()
	for key, keep := range map[string]time.Duration{"century": 100 * 365 * 24 * time.Hour, "centuries": 250 * 365 * 24 * time.Hour, "longest": math.MaxInt64} {
		if _, err := e.Store(t.Context(), key, []byte("value"), 0, keep); err != nil {
			t.Errorf("%s: %v", key, err)
			continue
		}
		for until := time.Now().Add(3 * time.Second); time.Now().Before(until); time.Sleep(200 * time.Millisecond) {
			if value, _, err := e.Load(t.Context(), key); err != nil || string(value) != "value" {
				t.Errorf("%s: %q, %v", key, value, err)
				break
			}
		}
	}
}
