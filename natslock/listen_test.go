package natslock

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/natslock/internal/natsstore"
)

// The connection breaks. While it is down the subscription is tried in vain; it is up
// soon after the connection is.
func TestNoticesAreHeardSoonAfterAReconnect(t *testing.T) {
	t.Parallel()
	proxy := faultproxy.New(t, testserver.NATS(t).Addr())
	config := nats.GetDefaultOptions()
	config.Servers = []string{proxy.Addr()}
	s, err := dial(t.Context(), natsstore.Settings{Config: config, Bucket: defaultBucket})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	subs := driverkit.NewSubscriptions(s.Listen)
	defer subs.Close()
	sub := subs.Open("left.name", func(string) {})
	if err := sub.WaitUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	proxy.Refuse()
	proxy.Reset()
	for generation, changed, _ := sub.State(); generation != 0; generation, changed, _ = sub.State() {
		<-changed
	}
	time.Sleep(300 * time.Millisecond) // the first attempt is made without a connection
	proxy.Heal()
	for !s.conn.IsConnected() {
		time.Sleep(time.Millisecond)
	}
	from := time.Now()
	if err := sub.WaitUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(from); took > 3*time.Second {
		t.Errorf("up %v after the connection", took)
	}
}
