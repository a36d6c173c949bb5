package redisdoctor

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-go/pawl/doctor"
)

// The oldest versions that pawl's commands work with.
var (
	// Before Redis 5, a script that has called TIME may not write: scripts were
	// replicated as such, and not by their effects. Every grant calls TIME.
	// https://redis.io/docs/latest/develop/programmability/eval-intro/#script-replication
	oldestServer = release{5, 0, 0}
	// SPUBLISH and SSUBSCRIBE, by which waiters in a cluster are notified, came with Redis
	// 7: https://redis.io/docs/latest/commands/spublish/
	oldestShard = release{7, 0, 0}
	// A Redlock's node must be as new; the engine refuses others.
	oldestVoter = release{7, 0, 0}
)

// A fault is a bug of Redis that costs locks.
type fault struct {
	since, fixed release
	meaning      string
}

var faults = []fault{
	// https://github.com/redis/redis/pull/8347
	{release{}, release{6, 2, 0}, "With appendfsync always, a failed sync is ignored: a grant is confirmed that is not on disk."},
	// https://github.com/redis/redis/pull/10737
	{release{7, 0, 0}, release{7, 0, 3}, "After a power cut the append-only file may be missing: the directory was not synced."},
}

// A release is a version: major, minor, patch.
type release [3]int

// parseRelease reads a version such as 7.0.15; ok is false if it is none.
func parseRelease(text string) (r release, ok bool) {
	for i, part := range strings.SplitN(text, ".", len(r)) {
		n, err := strconv.Atoi(part)
		if err != nil {
			return r, false
		}
		r[i] = n
	}
	return r, true
}

func (r release) before(other release) bool { return slices.Compare(r[:], other[:]) < 0 }

func (r release) String() string { return fmt.Sprintf("%d.%d.%d", r[0], r[1], r[2]) }

// version says whether the server is new enough, and free of known faults.
func version(_ context.Context, s *server) doctor.Finding {
	const check = "version"
	oldest, why := oldestServer, "Scripts of this version may not write after they have read the clock: every lock fails."
	switch s.url.Scheme {
	case "redis-cluster":
		oldest, why = oldestShard, "This version has no sharded channels: waiters are not notified of their turn."
	case "redlock":
		oldest, why = oldestVoter, "This version cannot be a node of a quorum: it never votes."
	}
	// Valkey tells in redis_version which Redis it is compatible with.
	is, ok := parseRelease(s.info["redis_version"])
	if !ok {
		return doctor.Warn(check, "the server does not tell its version", fmt.Sprintf("pawl needs Redis %v or newer.", oldest), "redis-server --version")
	}
	if is.before(oldest) {
		return doctor.Break(check, s.product(), why, upgrade(oldest))
	}
	for _, f := range faults {
		if !is.before(f.since) && is.before(f.fixed) {
			return doctor.Warn(check, s.product(), f.meaning, upgrade(f.fixed))
		}
	}
	return doctor.Good(check, s.product())
}

// upgrade is the line that installs another version.
func upgrade(to release) string {
	return fmt.Sprintf("apt-get install redis-server # %v or newer", to)
}
