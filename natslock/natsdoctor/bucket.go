package natsdoctor

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-go/pawl/doctor"
)

// leader checks the servers that keep the bucket.
func leader(_ context.Context, s *store) doctor.Finding {
	const check = "leader"
	c := s.js.info.Cluster
	switch {
	case c == nil || c.Leader == "" && s.first().conn.ConnectedClusterName() == "":
		return doctor.Good(check, "a single server")
	case c.Leader == "":
		return doctor.Break(check, "the bucket has none", "Nothing can be locked, unlocked or renewed; held locks end at their deadlines.", startDown)
	}
	for _, r := range c.Replicas {
		if r.Offline || !r.Current {
			return doctor.Warn(check, fmt.Sprintf("%s leads, %s does not follow", c.Leader, r.Name), "If more servers fail, nothing can be locked, renewed or released.", startDown)
		}
	}
	return doctor.Good(check, fmt.Sprintf("%s leads, %d follow", c.Leader, len(c.Replicas)))
}

// replicas checks on how many servers the bucket is.
func replicas(_ context.Context, s *store) doctor.Finding {
	const check = "replicas"
	n := max(s.js.info.Config.Replicas, 1)
	found := fmt.Sprintf("%d", n)
	mend := fmt.Sprintf("nats stream edit -f %s --replicas=3", s.stream())
	switch {
	case n == 1 && s.first().conn.ConnectedClusterName() != "":
		return doctor.Warn(check, found, "While that server is down no lock can be taken, renewed or released, and with its disk all locks are lost.", mend)
	case n%2 == 0:
		return doctor.Warn(check, found, fmt.Sprintf("No more servers may fail than with %d, and one more can.", n-1), mend)
	}
	return doctor.Good(check, found)
}

// persistence checks that the bucket is on disk before a write is acknowledged.
func persistence(_ context.Context, s *store) doctor.Finding {
	const check = "persistence"
	c := s.js.info.Config
	switch {
	case c.Storage == jetstream.MemoryStorage && c.Replicas < 2:
		return doctor.Break(check, "in memory", "A restart of the server frees all locks and gives tokens a second time.", s.anew())
	case c.Storage == jetstream.MemoryStorage:
		return doctor.Warn(check, "in memory", "If most servers restart at once, all locks are freed and tokens are given a second time.", s.anew())
	case c.PersistMode == jetstream.AsyncPersistMode:
		return doctor.Warn(check, "in files, persist mode async", "A server that is killed loses locks that were granted, and tokens are given a second time.", s.anew())
	}
	return doctor.Good(check, "in files")
}

// acknowledged checks that the server answers writes.
func acknowledged(_ context.Context, s *store) doctor.Finding {
	const check = "acknowledgements"
	if s.js.info.Config.NoAck {
		return doctor.Break(check, "off", "Every lock ends in an error: no write is ever answered.", fmt.Sprintf("nats stream edit -f %s --ack", s.stream()))
	}
	return doctor.Good(check, "on")
}

// protected checks that nobody can delete messages of the bucket.
func protected(_ context.Context, s *store) doctor.Finding {
	const check = "protection"
	c := s.js.info.Config
	if c.DenyDelete && c.DenyPurge {
		return doctor.Good(check, "messages cannot be deleted or purged")
	}
	return doctor.Warn(check, "messages can be deleted or purged", "Whoever does that frees locks that are held, and holders learn of it at their next beat.", s.anew())
}

// spaceWarning is how much of a limit may be used: what is left gives time to act.
const spaceWarning = 0.8

// space checks the limits of the bucket and of the account.
func space(_ context.Context, s *store) doctor.Finding {
	const check = "space"
	c, state := s.js.info.Config, s.js.info.State
	tier := s.js.account.Tier
	if t, ok := s.js.account.Tiers[fmt.Sprintf("R%d", max(c.Replicas, 1))]; ok {
		tier = t
	}
	edit := fmt.Sprintf("nats stream edit -f %s ", s.stream())
	worst := doctor.Good(check, fmt.Sprintf("%d bytes and %d messages are used, without a limit that is near", state.Bytes, state.Msgs))
	for _, l := range []struct {
		what, mend string
		used       uint64
		limit      int64
	}{
		{"bytes of the bucket", edit + "--max-bytes=-1", state.Bytes, c.MaxBytes},
		{"messages of the bucket", edit + "--max-msgs=-1", state.Msgs, c.MaxMsgs},
		{"bytes of the account", "accounts { NAME { jetstream { max_file: 1G } } }", tier.Store, tier.Limits.MaxStore},
	} {
		found := fmt.Sprintf("%d of %d %s are used", l.used, l.limit, l.what)
		switch {
		case l.limit <= 0 || float64(l.used) < spaceWarning*float64(l.limit):
		case int64(l.used) >= l.limit:
			return doctor.Break(check, found, "No further name can be locked.", l.mend)
		default:
			worst = doctor.Warn(check, found, "When the limit is reached no further name can be locked.", l.mend)
		}
	}
	return worst
}

// A line is one message, and a claim in it has about 300 bytes: smallMessage is room for
// some hundred waiters.
const (
	claimSize    = 300
	smallMessage = 100 << 10
)

// messageSize checks how long a line can be.
func messageSize(_ context.Context, s *store) doctor.Finding {
	const check = "message size"
	limit, mend := s.first().conn.MaxPayload(), "max_payload: 1MB"
	if n := int64(s.js.info.Config.MaxMsgSize); n > 0 && n < limit {
		limit, mend = n, fmt.Sprintf("nats stream edit -f %s --max-msg-size=-1", s.stream())
	}
	found := fmt.Sprintf("at most %d bytes", limit)
	if limit < smallMessage {
		return doctor.Warn(check, found, fmt.Sprintf("Lines of more than about %d claims are refused.", limit/claimSize), mend)
	}
	return doctor.Good(check, found)
}

// clock compares the clock of the bucket's leader with ours.
func clock(ctx context.Context, s *store) doctor.Finding {
	return doctor.Clock(ctx, "That clock judges when claims end: if another server leads next, or the clock is set, locks end too early or too late.",
		"timedatectl set-ntp true", func(ctx context.Context) (time.Time, error) {
			info, err := ask(ctx, func(ctx context.Context) (*jetstream.StreamInfo, error) { return s.js.stream.Info(ctx) })
			if err != nil {
				return time.Time{}, err
			}
			return info.TimeStamp, nil
		})
}
