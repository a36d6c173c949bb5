package natsdoctor

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/doctortest"
	"github.com/pawl-go/pawl/internal/testserver"
)

func TestMain(m *testing.M) { doctortest.Main(m, notApplied) }

// notApplied are the checks whose mends no test applies, and why.
var notApplied = map[string]string{
	"endpoints": "it names hosts that the user knows", "jetstream": "servers are to be started, or their files changed", "leader": "servers are to be started",
	"server": "servers are to be started", "sync interval": "it is the file of the server",
}

// monitored examines servers whose monitoring pages the examiner knows.
func monitored(servers ...*testserver.Server) examiner {
	return examiner{func(address string) string {
		for _, s := range servers {
			if s.Addr() == address {
				return fmt.Sprintf("127.0.0.1:%d", s.Ports()[1])
			}
		}
		return address
	}}
}

// examined returns the findings about a store.
func examined(t *testing.T, x examiner, store string) []doctor.Finding {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), doctortest.Limit)
	defer cancel()
	u, err := driver.ParseURL(store)
	if err != nil {
		t.Fatal(err)
	}
	found, err := x.examine(ctx, u)
	if err != nil {
		t.Fatal(err)
	}
	doctortest.WellFormed(t, found)
	return found
}

// dialTo connects as the tests themselves do.
func dialTo(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(url, nats.Timeout(20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// content is everything that JetStream keeps: streams with their settings and messages.
func content(t *testing.T, js jetstream.JetStream) string {
	t.Helper()
	text := ""
	streams := js.ListStreams(t.Context())
	for info := range streams.Info() {
		text += fmt.Sprintf("%+v %+v %v\n", info.Config, info.State, info.Created)
	}
	if err := streams.Err(); err != nil {
		t.Fatal(err)
	}
	return text
}
