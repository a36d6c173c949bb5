package contest

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawl-go/pawl/internal/faultproxy"
)

// Far returns an address from which a round trip to addr takes d longer.
func Far(t testing.TB, addr string, d time.Duration) string {
	p := faultproxy.New(t, addr)
	p.Delay(faultproxy.ToClient, d) // in one direction: timers shorter than a millisecond take one all the same
	return p.Addr()
}

// LatencyOver is Latency over a network whose round trip takes d. The contenders
// reach the server by [Far].
func LatencyOver(d time.Duration) Work {
	w := Latency()
	w.Name = fmt.Sprintf("latency-%v", d)
	w.Does = fmt.Sprintf("one lock with its unlock over a network with round trips of %v, nobody else wants the name", d)
	return w
}
