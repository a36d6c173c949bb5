package natsdoctor

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/natslock/internal/natsstore"
)

// answers checks that a server is there.
func answers(s *server) doctor.Finding {
	const check = "server"
	if s.conn != nil {
		return doctor.Good(check, "it answers")
	}
	mend := "systemctl start nats-server # there"
	if errors.Is(s.err, os.ErrDeadlineExceeded) { // of the connection: it runs, so that a start would do nothing
		mend = "systemctl restart nats-server # there: it listens and does not answer"
	}
	return doctor.Warn(check, fmt.Sprintf("does not answer: %v", s.err), "If it is down, fewer of the others may fail, and clients lose time when they try it.", mend)
}

// version checks that the server has TTLs of messages.
func version(_ context.Context, s *server) doctor.Finding {
	return judgeVersion(s.conn.ConnectedServerVersion())
}

func judgeVersion(text string) doctor.Finding {
	const check = "version"
	if err := natsstore.CheckVersion(text); errors.Is(err, driver.ErrUnsupported) {
		return doctor.Break(check, text, "pawl refuses it: messages have no TTLs.", "install nats-server 2.11 or newer")
	}
	var major, minor int
	if _, err := fmt.Sscanf(text, "%d.%d", &major, &minor); err != nil {
		return doctor.Warn(check, fmt.Sprintf("cannot read the version %q", text), "Whether its messages have TTLs, which pawl needs, is not known.", "nats-server --version")
	}
	return doctor.Good(check, text)
}

// roundTrip measures a ping.
func roundTrip(ctx context.Context, s *server) doctor.Finding {
	return doctor.RoundTrip(ctx, "run pawl nearer to the servers", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, askLimit)
		defer cancel()
		return s.conn.FlushWithContext(ctx)
	})
}

// syncInterval checks that a write is on disk before it is acknowledged. Only the monitoring
// page tells.
func syncInterval(_ context.Context, s *server) doctor.Finding {
	const check = "sync interval"
	const meaning = "If machines lose power, locks that were granted are lost and tokens are given a second time."
	const mend = "sync_interval: always # in the block jetstream, whose store_dir stays: in another folder it would find no bucket"
	switch {
	case s.monitor == nil:
		return doctor.Warn(check, fmt.Sprintf("cannot read it: no monitoring page: %v", s.monitorErr), "Unless it is always: "+meaning, mend)
	case s.monitor.JetStream.Config == nil:
		return doctor.Good(check, "this server has no JetStream")
	case !s.monitor.JetStream.Config.SyncAlways:
		return doctor.Warn(check, s.monitor.JetStream.Config.SyncInterval.String(), meaning, mend)
	}
	return doctor.Good(check, "always")
}
