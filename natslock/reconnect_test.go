package natslock

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
)

// For some time the server refuses the password, as one does that has not loaded its
// accounts yet.
func TestAConnectionSurvivesARefusedPassword(t *testing.T) {
	t.Parallel()
	right := testserver.NATS(t, `authorization { user: ana, password: word }`)
	wrong := testserver.NATS(t, `authorization { user: ana, password: other }`)
	proxy := faultproxy.New(t, right.Addr())
	c := openURLs(t, "nats://ana:word@"+proxy.Addr())
	lockOnce(t, c)
	proxy.Retarget(wrong.Addr())
	before := proxy.Reached()
	proxy.Reset()
	for until := time.Now().Add(20 * time.Second); proxy.Reached() < before+5; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("the connection was given up after %d attempts", proxy.Reached()-before)
		}
	}
	proxy.Retarget(right.Addr())
	proxy.Reset()
	lockOnce(t, c)
}
