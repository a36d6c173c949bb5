package redisdoctor

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

const (
	allSlots   = 16384
	fewMasters = 3 // a majority of the masters decides on a failover
)

// examineCluster examines a cluster, as the first host of the URL that answers knows it,
// and each of its masters.
func examineCluster(ctx context.Context, u *url.URL) ([]doctor.Finding, error) {
	t, err := parse(ctx, u)
	if err != nil {
		return nil, err
	}
	var found []doctor.Finding
	var errs []error
	for _, addr := range t.Client.InitAddress {
		s, err := connect(ctx, t, addr)
		if err != nil {
			errs = append(errs, err)
			found = append(found, doctor.Warn("server", err.Error(), "Clients that start find the cluster by the other hosts of the URL.",
				"redis-cli -h "+host(addr)+" -p "+port(addr)+" PING").At(addr))
			continue
		}
		defer s.close()
		return append(found, s.examineAsCluster(ctx)...), nil
	}
	return nil, driver.Join(errs...)
}

func (s *server) examineAsCluster(ctx context.Context) []doctor.Finding {
	m, err := s.do(ctx, "CLUSTER", "SLOTS")
	if redisclient.Code(err) == "NOPERM" {
		return []doctor.Finding{doctor.Break("rights", fmt.Sprintf("user %s lacks +cluster|slots", s.user), "Clients cannot find the locks.",
			s.setUser("+cluster|slots", "+cluster|shards"))}
	}
	if redisclient.Code(err) == "ERR" {
		return []doctor.Finding{doctor.Break("server", fmt.Sprintf("%s is not a node of a cluster: %v", s.addr, err), "Clients cannot find the locks.",
			s.at("redis", s.addr, "", ""))}
	}
	if err != nil {
		return []doctor.Finding{doctor.Break("server", fmt.Sprintf("no answer to CLUSTER SLOTS: %v", wrap(s.addr, err)), "Clients cannot find the locks.",
			"redis-cli -h "+host(s.addr)+" -p "+port(s.addr)+" CLUSTER INFO")}
	}
	covered, masters := slots(m, s.addr)
	found := []doctor.Finding{s.coverage(covered), s.masterCount(masters)}
	found = append(found, s.nodes(ctx)...)
	if f := s.fullCoverage(); f.Check != "" {
		found = append(found, f)
	}
	for _, f := range each(masters, func(addr string) []doctor.Finding { return s.examineAt(ctx, addr, shard) }) {
		found = append(found, f...)
	}
	return found
}

// slots reads CLUSTER SLOTS: the number of slots that have a master, and the masters. A
// node without an address is the one that was asked.
func slots(m redis.RedisMessage, asked string) (covered int, masters []string) {
	ranges, _ := m.ToArray()
	for i := range ranges {
		r, _ := ranges[i].ToArray()
		if len(r) < 3 {
			continue
		}
		first, _ := r[0].AsInt64()
		last, _ := r[1].AsInt64()
		covered += int(last - first + 1)
		node, _ := r[2].ToArray()
		if len(node) < 2 {
			continue
		}
		name, _ := node[0].ToString()
		if name == "" {
			name = host(asked)
		}
		at, _ := node[1].AsInt64()
		if addr := net.JoinHostPort(name, strconv.FormatInt(at, 10)); !slices.Contains(masters, addr) {
			masters = append(masters, addr)
		}
	}
	return covered, masters
}

// coverage says whether every slot has a master.
func (s *server) coverage(covered int) doctor.Finding {
	const check = "slots"
	if covered < allSlots {
		return doctor.Break(check, fmt.Sprintf("%d of %d slots have no master", allSlots-covered, allSlots), "Locks in these slots cannot be taken.",
			"redis-cli --cluster fix "+s.addr)
	}
	return doctor.Good(check, fmt.Sprintf("all %d have a master", allSlots))
}

// masterCount says whether the cluster can fail over.
func (s *server) masterCount(masters []string) doctor.Finding {
	found := fmt.Sprintf("%d masters", len(masters))
	if len(masters) < fewMasters {
		return doctor.Warn("masters", found, "Fewer than three masters have no majority when one is lost, and it is not replaced.",
			"redis-cli --cluster add-node HOST:6379 "+s.addr)
	}
	return doctor.Good("masters", found)
}

// nodes reads which nodes this one believes to fail, and which slots it moves.
func (s *server) nodes(ctx context.Context) (found []doctor.Finding) {
	text, err := s.text(ctx, "CLUSTER", "NODES")
	if err != nil {
		return []doctor.Finding{doctor.Warn("nodes", fmt.Sprintf("cannot read CLUSTER NODES: %v", err), "Nodes that fail and slots that move were not checked.",
			s.setUser("+cluster|nodes"))}
	}
	all := clusterNodes(text)
	for _, n := range all {
		if f := n.state(all); f.Check != "" {
			found = append(found, f.At(n.addr))
		}
		for _, slot := range n.slots {
			if number, _, moving := strings.Cut(strings.Trim(slot, "[]"), "-"); moving && strings.HasPrefix(slot, "[") {
				found = append(found, doctor.Warn("moving slots", "slot "+number+" is being moved", "New locks in it wait for the end of the move; those that are held are renewed.",
					"redis-cli --cluster fix "+s.addr+" # if no program is moving it any more").At(n.addr))
			}
		}
	}
	if len(found) == 0 {
		found = append(found, doctor.Good("nodes", "none fails"))
	}
	return found
}

// A clusterNode is a line of CLUSTER NODES.
type clusterNode struct {
	id, addr, master string
	flags, slots     []string
}

func clusterNodes(text string) (all []clusterNode) {
	for line := range strings.Lines(text) {
		// id, address, flags, master, ping, pong, epoch, link state, slots
		if words := strings.Fields(line); len(words) >= 8 {
			addr, _, _ := strings.Cut(words[1], "@")
			all = append(all, clusterNode{words[0], addr, words[3], strings.Split(words[2], ","), words[8:]})
		}
	}
	return all
}

// state judges the flags of a node. A majority of the masters has agreed on "fail", while
// "fail?" may be the asked node's alone: whoever takes over then makes a second master.
func (n clusterNode) state(all []clusterNode) doctor.Finding {
	start := "redis-cli -h " + host(n.addr) + " -p " + port(n.addr) + " PING # start it"
	switch failed, suspected := slices.Contains(n.flags, "fail"), slices.Contains(n.flags, "fail?"); {
	case failed && len(n.slots) > 0:
		for _, r := range all {
			if r.master == n.id && !slices.Contains(r.flags, "fail") && !slices.Contains(r.flags, "fail?") {
				start = "redis-cli -h " + host(r.addr) + " -p " + port(r.addr) + " CLUSTER FAILOVER FORCE # if the node does not come back"
			}
		}
		return doctor.Break("nodes", "a master has failed", "Its locks cannot be taken or renewed until it is back or a replica takes over.", start)
	case suspected && len(n.slots) > 0:
		return doctor.Break("nodes", "a master does not answer", "Its locks cannot be taken or renewed until it answers or a replica takes over.", start)
	case failed || suspected:
		return doctor.Warn("nodes", "a replica has failed", "It confirms no grant and cannot take over.", start)
	}
	return doctor.Finding{}
}

// fullCoverage says whether one lost shard ends all locks.
func (s *server) fullCoverage() doctor.Finding {
	const check = "cluster-require-full-coverage"
	switch s.config[check] {
	case "yes":
		return doctor.Warn(check, check+" is yes", "While one shard is away, the locks of all others are refused too.", "CONFIG SET "+check+" no")
	case "no":
		return doctor.Good(check, "no")
	}
	if s.config == nil {
		return doctor.Finding{} // the finding of the settings says why
	}
	return doctor.Warn(check, "the server does not tell it", "If it is yes, the locks of all shards are refused while one is away.", s.setUser("+config|get"))
}
