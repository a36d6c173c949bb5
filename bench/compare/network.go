package compare

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawl-go/pawl/internal/faultproxy"
)

// Delayed returns an address from which a round trip to addr takes d longer.
func Delayed(t testing.TB, addr string, d time.Duration) string {
	p := faultproxy.New(t, addr)
	p.Delay(faultproxy.ToClient, d) // in one direction only: timers take at least a millisecond anyway
	return p.Addr()
}

// LatencyOver is Latency over a network with a round trip of d. The contenders
// connect through [Delayed].
func LatencyOver(d time.Duration) Work {
	w := Latency()
	w.Name = fmt.Sprintf("latency-%v", d)
	w.Does = fmt.Sprintf("one lock with its unlock over a network with round trips of %v, nobody else wants the name", d)
	return w
}
