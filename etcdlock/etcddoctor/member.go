package etcddoctor

import (
	"context"
	"fmt"

	"github.com/pawl-go/pawl/doctor"
)

// quotaWarning is how much of the quota may be used: what is left gives time to act.
const quotaWarning = 0.8

// version checks for the faults of etcd issues 15247 and 12528: a leader that was stuck
// revokes all leases when it runs again, though another has become leader. They are mended
// by ignoring requests of an old leader, in 3.4.31 (pull request 17465), in 3.5.13 (17425) and
// in everything since 3.6 (16822); see CHANGELOG-3.4.md and CHANGELOG-3.5.md of etcd.
func version(_ context.Context, m *member) doctor.Finding {
	const check = "version"
	text := m.status.Version
	var major, minor, patch int
	if _, err := fmt.Sscanf(text, "%d.%d.%d", &major, &minor, &patch); err != nil {
		return doctor.Warn(check, fmt.Sprintf("cannot read the version %q", text), "Whether it has known faults is not known.", "etcd --version")
	}
	const meaning = "A leader that was stuck can revoke every lease when it comes back, and a rival may hold before the holder is told."
	switch {
	case major < 3 || major == 3 && minor < 4:
		return doctor.Break(check, text, "pawl needs etcd 3.4 or newer.", "install etcd 3.5.13 or newer")
	case major == 3 && minor == 4 && patch < 31:
		return doctor.Warn(check, text, meaning, "install etcd 3.4.31 # 3.5.13 or newer one minor version after the other: none reads the data of the one before the last")
	case major == 3 && minor == 5 && patch < 13:
		return doctor.Warn(check, text, meaning, "install etcd 3.5.13 or newer")
	}
	return doctor.Good(check, text)
}

// learner checks that the member has a vote: others refuse what pawl asks.
func learner(_ context.Context, m *member) doctor.Finding {
	const check = "learner"
	if !m.status.IsLearner {
		return doctor.Good(check, "no, it votes")
	}
	return doctor.Warn(check, "the URL names a learner", "It refuses every lock, so clients lose time until they try another member.",
		fmt.Sprintf("etcdctl member promote %x", m.status.Header.MemberId))
}

// leader checks that the member knows a leader.
func leader(_ context.Context, m *member) doctor.Finding {
	const check = "leader"
	switch m.status.Leader {
	case 0:
		return doctor.Warn(check, "it knows no leader", "It is cut off from the others, and a client on it waits until it tries another member.",
			"etcdctl endpoint health --cluster # then check the network between the members")
	case m.status.Header.MemberId:
		return doctor.Good(check, "it leads")
	}
	return doctor.Good(check, fmt.Sprintf("it follows %x", m.status.Leader))
}

// quota checks how much space is left.
func quota(_ context.Context, m *member) doctor.Finding {
	const check = "quota"
	limit := float64(m.status.DbSizeQuota)
	if limit == 0 { // before 3.6 only the metrics have it
		if m.metrics == nil {
			return doctor.Warn(check, fmt.Sprintf("cannot read the quota: %v", m.metricsErr), "How much space is left is not known.",
				"remove --listen-client-http-urls from the member's command line")
		}
		var told bool
		if limit, told = m.metrics["etcd_server_quota_backend_bytes"]; !told {
			return m.untold(check, "etcd_server_quota_backend_bytes", "How much space is left is not known.")
		}
	}
	size := float64(m.status.DbSize)
	if limit <= 0 {
		return doctor.Good(check, fmt.Sprintf("none; the database has %s", mib(size)))
	}
	found := fmt.Sprintf("%s of %s are used", mib(size), mib(limit))
	if size < quotaWarning*limit {
		return doctor.Good(check, found)
	}
	return doctor.Warn(check, found, "When the quota is reached no lock can be taken.", m.compact())
}

func mib(bytes float64) string { return fmt.Sprintf("%.1f MiB", bytes/(1<<20)) }

// roundTrip measures a read that a majority confirms.
func roundTrip(ctx context.Context, m *member) doctor.Finding {
	if m.status.IsLearner || m.status.Leader == 0 {
		return doctor.Warn("round trip", "not measured: the member serves no reads", "How long a lock takes is not known.", "etcdctl endpoint health --cluster")
	}
	return doctor.RoundTrip(ctx, "run pawl nearer to the members, or give them faster disks and more CPU", func(ctx context.Context) error {
		return m.read(ctx, "\x00")
	})
}
