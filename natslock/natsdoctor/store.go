package natsdoctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/natslock/internal/natsstore"
)

// oneStore checks that all servers of the URL have the same bucket, or if there is none
// yet, that they are in one cluster.
func oneStore(ctx context.Context, s *store) doctor.Finding {
	const check = "cluster"
	first := s.first()
	unsure, names := "", []string{first.conn.ConnectedClusterName()}
	for _, other := range s.servers {
		if other.conn == nil || other == first {
			continue
		}
		theirs := other.askJetStream(ctx, s.settings.Bucket)
		different, unknown := s.compare(other, theirs)
		if different == "" && unknown == "" && s.js.info == nil {
			different, unknown = s.apart(ctx, other)
		}
		if different != "" {
			return doctor.Break(check, different, "Two clients can hold the same lock, each at another server.", s.storeURL(s.settings.Bucket, s.inUse(other, theirs).address))
		}
		unsure, names = cmp.Or(unsure, unknown), append(names, other.conn.ConnectedClusterName())
	}
	if unsure != "" {
		return doctor.Warn(check, unsure, "Unless they share one JetStream, two clients can hold the same lock, each at another server.", s.storeURL(s.settings.Bucket, first.address))
	}
	slices.Sort(names)
	name := strings.Join(slices.Compact(names), " and ")
	if name == "" {
		mend := `cluster { name: NAME, listen: "0.0.0.0:6222", routes: ["nats://HOST2:6222", "nats://HOST3:6222"] }`
		if s.js.info != nil {
			mend += fmt.Sprintf(" # after %s. A server that joins a cluster drops the bucket that it has", s.anew())
		}
		return doctor.Warn(check, "a single server", "While it is down no lock can be taken, renewed or released, and with its disk all locks are lost.", mend)
	}
	return doctor.Good(check, "the servers of the URL are in cluster "+name)
}

// compare says how a server's JetStream differs from that of the first one, or why that is
// not known. If neither has the bucket, it is for apart to say.
func (s *store) compare(other *server, theirs jetStream) (different, unknown string) {
	first := s.first()
	ours, name := first.conn.ConnectedClusterName(), other.conn.ConnectedClusterName()
	switch {
	case s.js.info != nil && theirs.info != nil:
		if !theirs.info.Created.Equal(s.js.info.Created) {
			different = fmt.Sprintf("%s and %s have different buckets %s", first.address, other.address, s.settings.Bucket)
		}
	case s.js.info != nil && theirs.missing(), s.js.missing() && theirs.info != nil:
		different = fmt.Sprintf("only one of %s and %s has a bucket %s", first.address, other.address, s.settings.Bucket)
	case ours == "" || name == "":
		different = fmt.Sprintf("%s and %s are not in a cluster", first.address, other.address)
	case s.js.info == nil && !s.js.missing():
		unknown = fmt.Sprintf("cannot ask %s for its bucket: %v", first.address, s.js.err)
	case !theirs.missing():
		unknown = fmt.Sprintf("cannot ask %s for its bucket: %v", other.address, theirs.err)
	}
	return different, unknown
}

// inUse returns the one of two servers whose bucket has the locks: the only one, or the
// older one.
func (s *store) inUse(other *server, theirs jetStream) *server {
	if theirs.info != nil && (s.js.info == nil || theirs.info.Created.Before(s.js.info.Created)) {
		return other
	}
	return s.first()
}

// apart says whether a message that is sent at one server does not reach the other: then
// they are in two clusters, whatever their names. Gateways make one store of clusters with
// different names.
func (s *store) apart(ctx context.Context, other *server) (different, unknown string) {
	first := s.first()
	both := fmt.Sprintf("%s, in cluster %s, and %s, in cluster %s", first.address, first.conn.ConnectedClusterName(), other.address, other.conn.ConnectedClusterName())
	reached, err := reaches(ctx, other.conn, first.conn, fmt.Sprintf("pawl.%s.turn.%s", s.settings.Bucket, nats.NewInbox()[len(nats.InboxPrefix):]))
	switch {
	case err != nil:
		return "", fmt.Sprintf("cannot find out whether %s are connected: %v", both, err)
	case !reached:
		return both + ", are not connected", ""
	}
	return "", ""
}

// reaches sends a notice for nobody at one server until it arrives at another: servers of a
// cluster learn of a subscription a moment later.
func reaches(ctx context.Context, from, to *nats.Conn, subject string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	sub, err := to.SubscribeSync(subject)
	if err != nil {
		return false, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := to.FlushWithContext(ctx); err != nil {
		return false, err
	}
	for ctx.Err() == nil {
		if err := from.Publish(subject, nil); err != nil {
			return false, err
		}
		if _, err := sub.NextMsg(50 * time.Millisecond); err == nil {
			return true, nil
		}
		for _, c := range []*nats.Conn{from, to} {
			if err := c.LastError(); errors.Is(err, nats.ErrPermissionViolation) {
				return false, err
			}
		}
	}
	return false, nil
}

// endpoints checks that the URL names more than one server of a cluster.
func endpoints(_ context.Context, s *store) doctor.Finding {
	const check = "endpoints"
	if len(s.servers) > 1 || s.first().conn.ConnectedClusterName() == "" {
		return doctor.Good(check, fmt.Sprintf("the URL names %d", len(s.servers)))
	}
	return doctor.Warn(check, "the URL names 1 server of a cluster", "While that server is down no program can start to lock, though the cluster goes on.",
		s.storeURL(s.settings.Bucket, s.servers[0].address, "HOST2:4222", "HOST3:4222"))
}

// startDown is the mend where servers are missing. A start does nothing where one runs.
const startDown = "systemctl start nats-server # on the servers that are down; restart those that are stuck"

// errCluster is the code of the server's error that JetStream has no leader.
const errCluster = 10008

// jetStreamOn checks that JetStream answers, and is not one of a domain.
func jetStreamOn(_ context.Context, s *store) doctor.Finding {
	const check = "jetstream"
	if s.js.on() {
		if domain := s.js.account.Domain; domain != "" {
			return doctor.Break(check, fmt.Sprintf("domain %q", domain), "pawl refuses it: clients at a leafnode and at its hub would have different locks.",
				fmt.Sprintf("remove domain: %s from the jetstream block of the servers", domain))
		}
		return doctor.Good(check, "it is on")
	}
	var refusal *jetstream.APIError
	switch {
	case errors.Is(s.js.err, jetstream.ErrJetStreamNotEnabled):
		return doctor.Break(check, "it is off", "There are no buckets, and nothing can be locked.", `jetstream { store_dir: "/var/lib/nats", sync_interval: always }`)
	case errors.Is(s.js.err, jetstream.ErrJetStreamNotEnabledForAccount):
		return doctor.Break(check, "it is off for this account", "There are no buckets, and nothing can be locked.", "accounts { NAME { jetstream: enabled } }")
	case errors.As(s.js.err, &refusal) && refusal.ErrorCode == errCluster:
		return doctor.Break(check, "no majority of the servers agrees on a leader", "No bucket can be made or found; held locks end at their deadlines.", startDown)
	}
	return doctor.Break(check, fmt.Sprintf("no answer: %v", s.js.err), "There is no majority of the servers, or the right to ask is missing; nothing can be locked.",
		startDown)
}

// bucket checks that pawl can use the bucket, or will make it.
func bucket(s *store) doctor.Finding {
	const check = "bucket"
	name := s.settings.Bucket
	switch {
	case s.js.missing():
		config := natsstore.NewConfig(name, s.settings.Replicas, s.first().conn.ConnectedClusterName() != "")
		return doctor.Good(check, fmt.Sprintf("%s does not exist: the first lock makes it, with replicas: %d", name, config.Replicas))
	case s.js.info == nil:
		return doctor.Break(check, fmt.Sprintf("cannot read %s: %v", name, s.js.err), "It has no leader, or the right to ask is missing; nothing can be locked.",
			"nats stream info "+s.stream())
	}
	why := natsstore.Unfit(s.js.info.Config, name)
	switch {
	case why == "":
		return doctor.Good(check, name+" has the settings of pawl")
	case s.js.info.Config.Metadata[natsstore.Mark] == "":
		return doctor.Break(check, name+": "+why, "pawl refuses it, and nothing can be locked.", s.storeURL("OTHER", s.servers[0].address))
	}
	return doctor.Break(check, name+": "+why, "pawl refuses it, and nothing can be locked.", s.anew())
}

// anew is the command after which pawl makes the bucket with its own settings. Tokens grow
// still; locks that are held and records are lost.
func (s *store) anew() string {
	return fmt.Sprintf("nats stream rm -f %s # while nothing is locked, and once and cell keep nothing that is needed; the next lock makes it anew", s.stream())
}
