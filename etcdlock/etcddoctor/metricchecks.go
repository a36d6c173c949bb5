package etcddoctor

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/driverkit"
)

const (
	// changesPerHour is how many leaders may follow each other in an hour: each change puts
	// every hold in doubt for an election, a second or more.
	changesPerHour = 3

	// A write to the disk that takes half of the usual election timeout of a second keeps the
	// leader from telling the others that it is there. One in a hundred, and a few, may.
	slowWrite      = "0.512" // the bucket of the histogram
	slowWriteShare = 0.01
	slowWriteFew   = 3
)

// leaderChanges checks how often there was another leader since the member started.
func leaderChanges(_ context.Context, m *member) doctor.Finding {
	const check = "leader changes"
	const seen = "etcd_server_leader_changes_seen_total"
	total, told := m.metrics[seen]
	if !told {
		return m.untold(check, seen, "Whether locks are often in doubt is not known.")
	}
	changes := max(total-1, 0) // the first one is no change
	found, since := fmt.Sprintf("%.0f since the member started", changes), time.Duration(0)
	if start, told := m.metrics["process_start_time_seconds"]; told { // not on every system
		since = time.Since(time.Unix(int64(start), 0))
		found = fmt.Sprintf("%.0f in %v", changes, doctor.Short(since))
	}
	if changes <= changesPerHour*max(since.Hours(), 1) {
		return doctor.Good(check, found)
	}
	return doctor.Warn(check, found, "Each change puts every held lock in doubt, and locks with short TTLs are lost.",
		"etcd --heartbeat-interval=300 --election-timeout=3000 # on every member, one after the other, unless disks or CPUs are too slow; TTLs below 5s are rounded up then")
}

const walSyncs = "etcd_disk_wal_fsync_duration_seconds"

// fsync checks that the member waits for its disk. There is no setting to read: a member
// that does not wait has written the transactions of the rights, and counts as many fsyncs
// as before them.
func fsync(ctx context.Context, m *member) doctor.Finding {
	const check = "fsync"
	const unknown, again = "Whether the member waits for its disk is not known.", "pawl doctor -s URL # again, when the other findings are mended"
	before, told := m.metrics[walSyncs+"_count"]
	if !told {
		return m.untold(check, walSyncs+"_count", unknown)
	}
	if !m.awaitWritten(ctx) {
		return doctor.Warn(check, "not measured: the member wrote nothing meanwhile", unknown, again)
	}
	now, err := m.readMetrics(ctx)
	if err != nil {
		return doctor.Warn(check, fmt.Sprintf("not measured: %v", err), unknown, again)
	}
	if after := now[walSyncs+"_count"]; after > before {
		return doctor.Good(check, fmt.Sprintf("%.0f since it started", after))
	}
	return doctor.Warn(check, "it writes and does not wait for its disk", "If its machine loses power, the member forgets locks that were granted; if most do, two clients may hold and tokens repeat.",
		"remove --unsafe-no-fsync from the member's command line")
}

// awaitWritten waits until the member has written the transactions of the rights. A
// follower tells of it with the next heartbeat of its leader.
func (m *member) awaitWritten(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	for m.written > m.status.RaftIndex {
		status, err := m.client.Status(ctx, m.endpoint)
		if err != nil {
			return false
		}
		if status.RaftIndex >= m.written {
			return true
		}
		if !driverkit.Pause(ctx, 20*time.Millisecond) { // poll: there is no notification
			return false
		}
	}
	return false
}

// disk checks how long writes to the disk take.
func disk(_ context.Context, m *member) doctor.Finding {
	const check = "disk"
	const bucket = walSyncs + `_bucket{le="` + slowWrite + `"}`
	fast, told := m.metrics[bucket]
	if !told {
		return m.untold(check, bucket, "Whether its disk is fast enough is not known.")
	}
	all := m.metrics[walSyncs+"_count"]
	slow := all - fast
	if all == 0 { // the check of fsync says why
		return doctor.Good(check, "no write waits for it")
	}
	found := fmt.Sprintf("%.0f of %.0f writes took longer than %s s", slow, all, slowWrite)
	if slow <= slowWriteFew || slow <= slowWriteShare*all {
		return doctor.Good(check, found)
	}
	return doctor.Warn(check, found, "A leader that waits for its disk is replaced, and renewals come late.", "move the member's --data-dir to a faster disk of its own")
}

// clock compares the member's clock with ours.
func clock(ctx context.Context, m *member) doctor.Finding {
	return doctor.Clock(ctx, "Leases do not depend on it; signed tokens of users and certificates do, and are refused too early or too late.",
		"timedatectl set-ntp true", m.now)
}
