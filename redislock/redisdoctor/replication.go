package redisdoctor

import (
	"context"
	"fmt"
	"strconv"

	"github.com/pawl-go/pawl/doctor"
)

// replicas compares the replicas with the URL's wait.
func replicas(_ context.Context, s *server) doctor.Finding {
	const check = "replicas"
	all, online, wait := int(s.number("connected_slaves")), s.online(), s.Options.Replicas
	found := fmt.Sprintf("%d of %d online, wait=%d", online, all, wait)
	switch {
	case wait > online:
		return doctor.Break(check, found, "Every grant waits for more replicas than there are, and fails.",
			s.at(s.url.Scheme, s.url.Host, "wait", strconv.Itoa(online)))
	case all > 0 && wait == 0:
		return doctor.Warn(check, found, "A failover to a replica that lacks a grant frees a lock that is held.",
			s.at(s.url.Scheme, s.url.Host, "wait", "1"))
	case online < all:
		return doctor.Warn(check, found, "A replica that is not in sync lacks grants, and frees their locks if it becomes the master.",
			"redis-cli -h REPLICA INFO replication")
	case all == 0:
		return doctor.Good(check, "none")
	}
	return doctor.Good(check, found)
}

// online counts the replicas that have all data.
func (s *server) online() (n int) {
	for i := range int(s.number("connected_slaves")) {
		if parts(s.info["slave"+strconv.Itoa(i)])["state"] == "online" {
			n++
		}
	}
	return n
}

// minReplicas says whether a master that lost its replicas goes on.
func minReplicas(_ context.Context, s *server) doctor.Finding {
	const check = "min-replicas-to-write"
	least, all := number(s.config[check]), s.number("connected_slaves")
	good := s.number("min_slaves_good_slaves")
	switch {
	case least > 0 && good < least:
		return doctor.Break(check, fmt.Sprintf("%s is %d, and %d replicas are there", check, least, good),
			"The server refuses all writes (NOREPLICAS): no lock can be taken or renewed.", fmt.Sprintf("CONFIG SET %s %d", check, good))
	case least == 0 && all > 0:
		return doctor.Warn(check, fmt.Sprintf("%s is 0, with %d replicas", check, all),
			"A master that is cut off from its replicas goes on granting locks that the next master grants too.",
			s.configSet(check+" 1", "min-replicas-max-lag 10"))
	case all == 0:
		return doctor.Good(check, "no replicas")
	}
	return doctor.Good(check, fmt.Sprintf("%d, and %d replicas are there", least, good))
}
