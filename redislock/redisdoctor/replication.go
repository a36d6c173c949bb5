package redisdoctor

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/pawl-go/pawl/doctor"
)

// replicas compares the replicas with the URL's wait.
func replicas(ctx context.Context, s *server) doctor.Finding {
	const check = "replicas"
	all, online, wait := int(s.number("connected_slaves")), s.online(), s.Options.Replicas
	found := fmt.Sprintf("%d of %d online, wait=%d", online, all, wait)
	const alone = "No server takes over when this master fails: its locks cannot be taken or renewed until it is back."
	switch {
	case all == 0 && s.url.Scheme == "redis-cluster":
		return s.without(check, found, alone, "redis-cli --cluster add-node HOST:6379 "+s.addr+" --cluster-slave --cluster-master-id "+s.myID(ctx))
	case all == 0 && s.url.Scheme == "redis-sentinel":
		return s.without(check, found, alone, "redis-cli -h HOST -p 6379 REPLICAOF "+host(s.addr)+" "+port(s.addr))
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

// without is the finding of a master without replicas, of which grants may wait for some.
func (s *server) without(check, found, meaning, mend string) doctor.Finding {
	if s.Options.Replicas > 0 {
		return doctor.Break(check, found, "Every grant waits for more replicas than there are, and fails.", mend)
	}
	return doctor.Warn(check, found, meaning, mend)
}

// myID returns the ID of a node of a cluster.
func (s *server) myID(ctx context.Context) string {
	id, err := s.text(ctx, "CLUSTER", "MYID")
	if err != nil {
		return "ID" // as CLUSTER NODES shows it
	}
	return id
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

// current counts the online replicas whose last word is no older than some seconds.
func (s *server) current(seconds int64) (n int64) {
	for i := range int(s.number("connected_slaves")) {
		if r := parts(s.info["slave"+strconv.Itoa(i)]); r["state"] == "online" && number(r["lag"]) <= seconds {
			n++
		}
	}
	return n
}

// minReplicas says whether a master that lost its replicas goes on, and for how long. The
// server counts replicas only if both settings are above 0.
func minReplicas(ctx context.Context, s *server) doctor.Finding {
	const check, maxLag = "min-replicas-to-write", "min-replicas-max-lag"
	const goesOn = "A master that is cut off from its replicas goes on granting locks that the next master grants too."
	least, lag, all := number(s.config[check]), number(s.config[maxLag]), s.number("connected_slaves")
	good := s.number("min_slaves_good_slaves")
	ttl := doctor.TTL(ctx, doctor.LibraryTTL)
	short := max(1, min(shortLag, int64(ttl/(3*time.Second))))
	setLag := fmt.Sprintf("%s %d", maxLag, short)
	switch there := s.current(short); {
	case least > 0 && lag > 0 && good < least:
		return doctor.Break(check, fmt.Sprintf("%s is %d, and %d replicas are there", check, least, good),
			"The server refuses all writes (NOREPLICAS): no lock can be taken or renewed.", fmt.Sprintf("CONFIG SET %s %d", check, good))
	case all == 0:
		return doctor.Good(check, "no replicas")
	case there < max(1, least) && (least == 0 || lag == 0 || time.Duration(lag)*time.Second >= ttl):
		r := parts(s.info["slave0"])
		return doctor.Warn(check, fmt.Sprintf("%s is %d with %s %d, and %d of %d replicas are online", check, least, maxLag, lag, there, all),
			goesOn+" To ask for replicas now would stop all writes.", "redis-cli -h "+r["ip"]+" -p "+r["port"]+" INFO replication")
	case least == 0:
		return doctor.Warn(check, fmt.Sprintf("%s is 0, with %d replicas", check, all), goesOn, s.configSet(check+" 1", setLag))
	case lag == 0:
		return doctor.Warn(check, fmt.Sprintf("%s is %d, without effect: %s is 0", check, least, maxLag), goesOn, "CONFIG SET "+setLag)
	case time.Duration(lag)*time.Second >= ttl:
		return doctor.Warn(check, fmt.Sprintf("%s is %d, but %s is %d s, and leases last %v", check, least, maxLag, lag, ttl),
			"A master that is cut off from its replicas goes on granting and renewing for that long, and the next master grants the same locks.", "CONFIG SET "+setLag)
	}
	return doctor.Good(check, fmt.Sprintf("%d, and %d replicas are there", least, good))
}

// shortLag is a lag, in seconds, that replicas which are there do not reach: they send word
// every second.
const shortLag = 3
