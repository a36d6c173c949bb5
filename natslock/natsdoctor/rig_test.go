package natsdoctor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/doctortest"
	"github.com/pawl-go/pawl/internal/testserver"
)

func TestMain(m *testing.M) { doctortest.Main(m, nil) }

// systemctl does to a server what a mend says of its service: a start does nothing where it
// runs.
func systemctl(t *testing.T, f doctor.Finding, server *testserver.Server) {
	t.Helper()
	switch verb, _, _ := strings.Cut(strings.TrimPrefix(f.Mend, "systemctl "), " nats-server"); verb {
	case "start":
		select {
		case <-server.Exited():
			server.Restart()
		default:
		}
	case "restart":
		server.Restart()
	default:
		t.Fatalf("%q", f.Mend)
	}
}

// configure changes the file of a server and starts it again.
func configure(t *testing.T, server *testserver.Server, old, changed string) {
	t.Helper()
	path := filepath.Join(server.Dir(), "nats.conf")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		t.Fatalf("no %q in\n%s", old, text)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), old, changed, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	server.Restart()
}

// apply does by the API what a mend says to do with the command nats, which is not there.
func apply(t *testing.T, js jetstream.JetStream, f doctor.Finding) {
	t.Helper()
	words := strings.Fields(line(f))
	if len(words) < 5 || !slices.Contains([]string{"nats stream rm -f", "nats stream edit -f"}, strings.Join(words[:4], " ")) {
		t.Fatalf("%q", f.Mend)
	}
	if len(words) == 5 {
		if err := js.DeleteStream(t.Context(), words[4]); err != nil {
			t.Fatal(err)
		}
		return
	}
	stream, err := js.Stream(t.Context(), words[4])
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	flag, text, _ := strings.Cut(words[5], "=")
	number, _ := strconv.Atoi(text)
	switch flag {
	case "--ack":
		config.NoAck = false
	case "--replicas":
		config.Replicas = number
	case "--max-bytes":
		config.MaxBytes = int64(number)
	case "--max-msgs":
		config.MaxMsgs = int64(number)
	case "--max-msg-size":
		config.MaxMsgSize = int32(number)
	default:
		t.Fatalf("%q", f.Mend)
	}
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
}

// line returns a mend without its comment.
func line(f doctor.Finding) string {
	text, _, _ := strings.Cut(f.Mend, " # ")
	return text
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
