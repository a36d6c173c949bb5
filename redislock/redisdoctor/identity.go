package redisdoctor

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// kind says whether the server is of the kind that the URL's scheme says.
func kind(_ context.Context, s *server) doctor.Finding {
	const check = "server"
	switch {
	case s.info["redis_mode"] == "sentinel":
		return doctor.Break(check, s.addr+" is a sentinel", "A sentinel keeps no keys: no lock can be taken here.",
			s.at("redis-sentinel", s.addr, "", "")+", NAME as in: SENTINEL MASTERS")
	case s.info["cluster_enabled"] == "1":
		return doctor.Break(check, s.addr+" is a node of a cluster", "The other nodes' keys are refused here, and with them most locks.",
			s.at("redis-cluster", s.addr, "", ""))
	}
	return doctor.Good(check, "one server, "+s.product())
}

// product returns the name and the version of the server.
func (s *server) product() string {
	if v := s.info["valkey_version"]; v != "" {
		return "Valkey " + v
	}
	return "Redis " + s.info["redis_version"]
}

// role says whether the server accepts writes.
func role(_ context.Context, s *server) doctor.Finding {
	const check = "role"
	if s.info["role"] != "slave" {
		return doctor.Good(check, "a master")
	}
	of := net.JoinHostPort(s.info["master_host"], s.info["master_port"])
	if s.url.Scheme == "redlock" {
		return doctor.Break(check, s.addr+" is a replica of "+of, "A replica refuses writes and has no vote of its own.", "REPLICAOF NO ONE")
	}
	return doctor.Break(check, s.addr+" is a replica of "+of, "A replica refuses writes: no lock can be taken here.",
		s.at(strings.TrimSuffix(s.url.Scheme, "-sentinel"), of, "", ""))
}

// watchedBySentinels finds sentinels that may make another server the master. They
// subscribe to a channel at every server that they watch.
func watchedBySentinels(ctx context.Context, s *server) doctor.Finding {
	const check, channel = "watched by sentinels", "__sentinel__:hello"
	m, err := s.do(ctx, "PUBSUB", "NUMSUB", channel)
	if err != nil {
		if redisclient.Code(err) != "" {
			s.refused("PUBSUB NUMSUB", "pubsub|numsub", err)
		}
		return doctor.Finding{}
	}
	counts, _ := m.AsIntMap()
	if counts[channel] == 0 {
		return doctor.Finding{}
	}
	return doctor.Warn(check, fmt.Sprintf("sentinels watch this server (%d connections)", counts[channel]),
		"After a failover this URL leads to the old master, whose locks exclude nobody at the new one.",
		s.at("redis-sentinel", "HOST:26379", "", "")+", HOST of a sentinel, NAME as in: SENTINEL MASTERS")
}
