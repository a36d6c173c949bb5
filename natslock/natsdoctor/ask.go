package natsdoctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/natslock/internal/natsstore"
)

// askLimit bounds each question: as long as pawl waits for an answer.
const askLimit = natsstore.CallLimit

// A server is one of the URL, and what it answered.
type server struct {
	address  string
	err      error // why it does not answer
	conn     *nats.Conn
	endDials func()

	monitor    *monitor // nil: it has no page where it was looked for
	monitorErr error
}

// A monitor is what is used of a server's monitoring page.
type monitor struct {
	ID        string `json:"server_id"`
	JetStream struct {
		Config *struct {
			SyncAlways   bool          `json:"sync_always"`
			SyncInterval time.Duration `json:"sync_interval"`
		}
	}
}

// askAll connects to the servers of the URL, each over a connection of its own.
func (x examiner) askAll(ctx context.Context, settings natsstore.Settings) []*server {
	servers := make([]*server, len(settings.Config.Servers))
	var work sync.WaitGroup
	for i, u := range settings.Config.Servers {
		s := &server{address: strings.TrimPrefix(u, "nats://")}
		servers[i] = s
		work.Go(func() {
			one := settings
			one.Config.Servers = []string{u}
			one.Config.IgnoreDiscoveredServers = true // it stays with this one
			if s.conn, s.endDials, s.err = natsstore.Connect(ctx, one); s.err == nil {
				s.readMonitor(ctx, x.monitorOf(s.address))
			}
		})
	}
	work.Wait()
	return servers
}

// readMonitor reads the monitoring page at an address, if it is this server's.
func (s *server) readMonitor(ctx context.Context, address string) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/varz", nil)
	if err != nil {
		s.monitorErr = err
		return
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: driver.DialerOf(ctx)}
	response, err := transport.RoundTrip(request)
	if err != nil {
		s.monitorErr = err
		return
	}
	defer response.Body.Close()
	var page monitor
	const most = 1 << 20
	switch err := json.NewDecoder(io.LimitReader(response.Body, most)).Decode(&page); {
	case err != nil || page.ID == "":
		s.monitorErr = fmt.Errorf("%s has no page of a server", address)
	case page.ID != s.conn.ConnectedServerId():
		s.monitorErr = fmt.Errorf("%s has the page of another server", address)
	default:
		s.monitor = &page
	}
}

// A jetStream is what a server told of its JetStream and of the bucket.
type jetStream struct {
	api     jetstream.JetStream
	account *jetstream.AccountInfo
	stream  jetstream.Stream
	info    *jetstream.StreamInfo // nil: there is no such bucket, or it was not told
	err     error                 // why account or info is missing
}

// on reports whether JetStream answered.
func (j jetStream) on() bool { return j.account != nil }

// missing reports whether the bucket does not exist.
func (j jetStream) missing() bool { return errors.Is(j.err, jetstream.ErrStreamNotFound) }

// askJetStream asks a server for its JetStream and the bucket.
func (s *server) askJetStream(ctx context.Context, bucket string) (j jetStream) {
	if j.api, j.err = jetstream.New(s.conn); j.err != nil {
		return j
	}
	if j.account, j.err = ask(ctx, j.api.AccountInfo); j.err != nil {
		j.account = nil
		return j
	}
	j.stream, j.err = ask(ctx, func(ctx context.Context) (jetstream.Stream, error) {
		return j.api.Stream(ctx, natsstore.StreamName(bucket))
	})
	if j.err == nil {
		j.info = j.stream.CachedInfo()
	}
	return j
}

func ask[R any](ctx context.Context, f func(context.Context) (R, error)) (R, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	return f(ctx)
}
