package redisdoctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-go/pawl/doctor"
)

// A place is what a server is examined as.
type place int

const (
	single  place = iota // by a redis:// URL
	master               // by its sentinels' word
	shard                // a master of a cluster
	replica              // that may become the master
	voter                // of a Redlock
)

// A check examines one thing at a server. A finding without a name says that there is nothing to say.
type check struct {
	name   string
	info   string // the fields of INFO without which it would be wrong
	config string // the settings that it reads beside INFO
	at     []place
	f      func(ctx context.Context, s *server) doctor.Finding
}

// The first of these that is broken ends the examination: what follows would
// describe a server that locks do not use.
var identity = []check{
	{name: "server", info: "redis_mode", at: []place{single, voter}, f: kind},
	{name: "role", info: "role", at: []place{single, master, shard, voter}, f: role},
}

// checks need INFO, apart from those in probes.
var checks = []check{
	{name: "version", at: []place{single, master, shard, replica, voter}, f: version},
	{name: "eviction policy", at: []place{single, master, shard, replica, voter}, f: eviction},
	{name: "memory left", at: []place{single, master, shard, voter}, f: memoryLeft},
	{name: "persistence", info: "aof_enabled", config: "appendfsync no-appendfsync-on-rewrite save", at: []place{single, master, shard, replica}, f: persistence},
	{name: "persistence", info: "aof_enabled", at: []place{voter}, f: voterPersistence},
	{name: "disk writes", info: "rdb_last_bgsave_status", config: "save stop-writes-on-bgsave-error", at: []place{single, master, shard, voter}, f: diskWrites},
	{name: "replicas", info: "connected_slaves", at: []place{single, master, shard}, f: replicas},
	{name: "min-replicas-to-write", info: "connected_slaves", config: "min-replicas-to-write min-replicas-max-lag", at: []place{single, master, shard, voter}, f: minReplicas},
	{name: "keys", info: "redis_version", at: []place{single, master, shard, voter}, f: keys},
	{name: "clients", info: "connected_clients", at: []place{single, master, shard, voter}, f: clients},
	{name: "idle timeout", config: "timeout", at: []place{single, master, shard, voter}, f: idleTimeout},
}

// probes ask the server themselves.
var probes = []check{
	{name: "watched by sentinels", at: []place{single}, f: watchedBySentinels},
	{name: "scripts", at: []place{single, master, shard, replica, voter}, f: scripts},
	{name: "rights", at: []place{single, master, shard, replica, voter}, f: rights}, // they are not replicated
	{name: "clock", at: []place{single, master, shard, replica, voter}, f: clock},
	{name: "round trip", at: []place{single, master, shard, voter}, f: roundTrip},
}

// examine makes all checks of a place.
func (s *server) examine(ctx context.Context, as place) (found []doctor.Finding) {
	ctx, cancel := context.WithTimeout(ctx, contact)
	defer cancel()
	var skipped, lacking, unknown []string
	run := func(c check, readable bool) bool {
		if !slices.Contains(c.at, as) {
			return true
		}
		if !readable {
			skipped = append(skipped, c.name)
			return true
		}
		if lacks := s.lacks(c); len(lacks) > 0 {
			lacking, unknown = append(lacking, lacks...), append(unknown, c.name)
			return true
		}
		f := c.f(ctx, s)
		if f.Check == "" { // there is nothing to say
			return true
		}
		found = append(found, f)
		return f.Level != doctor.Broken
	}
	for _, c := range identity {
		if !run(c, s.info != nil) {
			return found
		}
	}
	for _, c := range checks {
		run(c, s.info != nil && (s.config != nil || c.config == ""))
	}
	for _, c := range probes {
		run(c, true)
	}
	if len(lacking) > 0 {
		found = append(found, s.untold(lacking, unknown))
	}
	return append(found, s.unreadable(skipped)...)
}

// lacks returns what a check needs and the server does not tell, as some do that only
// speak the protocol of Redis.
func (s *server) lacks(c check) (names []string) {
	for _, name := range strings.Fields(c.info) {
		if _, told := s.info[name]; !told {
			names = append(names, name)
		}
	}
	for _, name := range strings.Fields(c.config) {
		if _, told := s.config[name]; !told {
			names = append(names, name)
		}
	}
	return names
}

// untold says what was not checked because fields or settings are missing.
func (s *server) untold(names, skipped []string) doctor.Finding {
	slices.Sort(names)
	return doctor.Warn("settings", "the server does not tell "+strings.Join(slices.Compact(names), ", "),
		fmt.Sprintf("Not checked: %s.", strings.Join(skipped, ", ")), "redis-cli -h "+host(s.addr)+" -p "+port(s.addr)+" INFO everything")
}

// unreadable says what was not checked, and why.
func (s *server) unreadable(skipped []string) []doctor.Finding {
	if len(s.unread) == 0 {
		return nil
	}
	var commands, rights, errs []string
	for _, u := range s.unread {
		commands, rights = append(commands, u.command), append(rights, "+"+u.right)
		if text := u.err.Error(); !slices.Contains(errs, text) {
			errs = append(errs, text)
		}
	}
	meaning := "Locks work without these rights."
	if len(skipped) > 0 {
		meaning = fmt.Sprintf("Not checked: %s. Locks work without these rights.", strings.Join(skipped, ", "))
	}
	return []doctor.Finding{doctor.Warn("settings", fmt.Sprintf("cannot read %s: %s", strings.Join(commands, ", "), strings.Join(errs, "; ")),
		meaning, s.setUser(rights...))}
}
