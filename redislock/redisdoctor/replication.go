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

// minReplicas says whether a master that lost its replicas goes on. The server counts
// replicas only if both settings are above 0.
func minReplicas(_ context.Context, s *server) doctor.Finding {
	const check, maxLag = "min-replicas-to-write", "min-replicas-max-lag"
	const goesOn = "A master that is cut off from its replicas goes on granting locks that the next master grants too."
	least, off, all := number(s.config[check]), number(s.config[maxLag]) == 0, s.number("connected_slaves")
	good := s.number("min_slaves_good_slaves")
	switch {
	case least > 0 && !off && good < least:
		return doctor.Break(check, fmt.Sprintf("%s is %d, and %d replicas are there", check, least, good),
			"The server refuses all writes (NOREPLICAS): no lock can be taken or renewed.", fmt.Sprintf("CONFIG SET %s %d", check, good))
	case all == 0:
		return doctor.Good(check, "no replicas")
	case least == 0:
		return doctor.Warn(check, fmt.Sprintf("%s is 0, with %d replicas", check, all), goesOn, s.configSet(check+" 1", maxLag+" 10"))
	case off:
		return doctor.Warn(check, fmt.Sprintf("%s is %d, without effect: %s is 0", check, least, maxLag), goesOn, "CONFIG SET "+maxLag+" 10")
	}
	return doctor.Good(check, fmt.Sprintf("%d, and %d replicas are there", least, good))
}
