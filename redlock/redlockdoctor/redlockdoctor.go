// Package redlockdoctor examines the servers of a Redlock. Imported, it makes package
// doctor accept redlock:// URLs. What it asks of a server is that of package redisdoctor.
package redlockdoctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/quorum"
	"github.com/pawl-go/pawl/redislock/redisdoctor"
	"github.com/pawl-go/pawl/redlock/internal/redlockurl"
)

func init() { doctor.Register("redlock", examine) }

const (
	fewest   = 3                // the engine refuses fewer servers
	usualTTL = 30 * time.Second // of pawl run
)

// A node is one server of the URL.
type node struct {
	name string
	*redisdoctor.Voter
	err error // why there is no Voter
}

// A set is the servers of the URL.
type set struct {
	nodes   []node
	maxTTL  time.Duration
	id      string // of the quorum, which its servers remember
	command string // one that keeps a client running, to be followed by seconds
}

func examine(ctx context.Context, u *url.URL) ([]doctor.Finding, error) {
	servers, maxTTL, err := redlockurl.Parse(u)
	if err != nil {
		return nil, err
	}
	s := &set{nodes: make([]node, len(servers)), maxTTL: maxTTL}
	var names []string
	var wg sync.WaitGroup
	for i, server := range servers {
		names = append(names, server.Name)
		at := *server.URL
		at.Scheme = u.Scheme
		wg.Go(func() {
			v, err := redisdoctor.ExamineVoter(ctx, &at)
			s.nodes[i] = node{server.Name, v, err}
		})
	}
	wg.Wait()
	s.id = quorum.ID(names, maxTTL)
	s.command = fmt.Sprintf("pawl run -s '%s' pawl-doctor -- sleep ", shown(u))
	if maxTTL < usualTTL {
		s.command = fmt.Sprintf("pawl run -s '%s' --ttl %v --kill-after %v pawl-doctor -- sleep ", shown(u), maxTTL, maxTTL/3)
	}
	var errs []error
	for _, n := range s.nodes {
		errs = append(errs, n.err)
	}
	if s.answering() == 0 || slices.ContainsFunc(errs, isURL) {
		return nil, driver.Join(errs...)
	}
	return s.findings(), nil
}

func isURL(err error) bool { return errors.Is(err, driver.ErrURL) }

// shown returns the URL without its login and the files of its certificates.
func shown(u *url.URL) string {
	q := url.Values{}
	for _, kept := range []string{"max-ttl", "prefix", "tls"} {
		if v := u.Query().Get(kept); v != "" {
			q.Set(kept, v)
		}
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawQuery: q.Encode()}).String()
}

func (s *set) findings() []doctor.Finding {
	found := []doctor.Finding{s.size(), s.sameServer(), s.replication(), s.machines(), s.quorum()}
	for _, n := range s.nodes {
		if n.err != nil {
			found = append(found, s.away(n).At(n.name))
			continue
		}
		found = append(found, s.vote(n).At(n.name))
		for _, f := range n.Findings {
			found = append(found, f.At(n.name))
		}
	}
	return found
}

func (s *set) majority() int { return len(s.nodes)/2 + 1 }

func (s *set) answering() (n int) {
	for _, node := range s.nodes {
		if node.err == nil {
			n++
		}
	}
	return n
}

// size says whether there are enough servers.
func (s *set) size() doctor.Finding {
	const check = "servers"
	n := len(s.nodes)
	found := fmt.Sprintf("%d servers, of which %d may be lost", n, n-s.majority())
	switch {
	case n < fewest:
		return doctor.Break(check, found, "pawl refuses fewer than three: the loss of one would end all locks.", "-s 'redlock://host1,host2,host3'")
	case n%2 == 0:
		return doctor.Warn(check, found, fmt.Sprintf("%d servers survive as many losses and cost less: the last one adds nothing.", n-1),
			"-s 'redlock://"+s.without(n-1)+"'")
	}
	return doctor.Good(check, found)
}

// without returns the hosts but the one at i.
func (s *set) without(i int) string {
	var names []string
	for j, n := range s.nodes {
		if j != i {
			names = append(names, n.name)
		}
	}
	return strings.Join(names, ",")
}

// sameServer finds two names of one server.
func (s *set) sameServer() doctor.Finding {
	const check = "same server"
	if a, b, ok := s.alike(func(n node) string { return n.RunID }); ok {
		return doctor.Break(check, fmt.Sprintf("%s and %s are one server", s.nodes[a].name, s.nodes[b].name),
			"It would have two votes, so pawl refuses to take any lock.", "-s 'redlock://"+s.without(b)+",ANOTHER'")
	}
	if name := s.withoutKey(func(n node) string { return n.RunID }); name != "" {
		return doctor.Warn(check, name+" does not tell its run ID", "If it is one of the others by another name, pawl refuses to take any lock.", infoOf(name))
	}
	return doctor.Good(check, "each name is a server of its own")
}

// infoOf is the line that shows whether a server tells what was missing.
func infoOf(name string) string {
	return fmt.Sprintf("redis-cli -h %s INFO # as the user of the URL, who needs +info", strings.Replace(name, ":", " -p ", 1))
}

// replication finds servers that replicate from each other: they share a history.
func (s *set) replication() doctor.Finding {
	const check = "independence"
	a, b, ok := s.alike(func(n node) string { return n.History })
	if name := s.withoutKey(func(n node) string { return n.History }); name != "" && !ok {
		return doctor.Warn(check, name+" does not tell from where it replicates", "If it is a replica of another one, it has no vote of its own.", infoOf(name))
	}
	if !ok || s.nodes[a].RunID == s.nodes[b].RunID {
		return doctor.Good(check, "no server replicates from another")
	}
	if s.nodes[a].Replica {
		a, b = b, a
	}
	return doctor.Break(check, fmt.Sprintf("%s and %s replicate from each other or from the same server", s.nodes[a].name, s.nodes[b].name),
		"They are not independent: what one loses the other loses, and a replica has no vote.",
		fmt.Sprintf("redis-cli -h %s REPLICAOF NO ONE", strings.Replace(s.nodes[b].name, ":", " -p ", 1)))
}

// machines finds servers on the same host.
func (s *set) machines() doctor.Finding {
	const check = "hosts"
	a, b, ok := s.alike(func(n node) string { return hostOf(n.name) })
	if !ok {
		return doctor.Good(check, "no two servers have the same")
	}
	return doctor.Warn(check, fmt.Sprintf("%s and %s are on the same host", s.nodes[a].name, s.nodes[b].name),
		"They are lost together, and the locks with them if that is a majority.", "-s 'redlock://"+s.without(b)+",ANOTHER'")
}

func hostOf(name string) string {
	if host, _, err := net.SplitHostPort(name); err == nil {
		return host
	}
	return name
}

// alike returns the first two servers that answer for which key is the same.
func (s *set) alike(key func(node) string) (a, b int, ok bool) {
	first := map[string]int{}
	for i, n := range s.nodes {
		if n.err != nil || key(n) == "" {
			continue
		}
		if a, ok := first[key(n)]; ok {
			return a, i, true
		}
		first[key(n)] = i
	}
	return 0, 0, false
}

// withoutKey returns the name of the first server that answers and has no key; "" if all
// have one.
func (s *set) withoutKey(key func(node) string) string {
	for _, n := range s.nodes {
		if n.err == nil && key(n) == "" {
			return n.name
		}
	}
	return ""
}

// away is the finding of a server that does not answer.
func (s *set) away(n node) doctor.Finding {
	mend := fmt.Sprintf("redis-cli -h %s PING", strings.Replace(n.name, ":", " -p ", 1))
	if s.answering() < s.majority() {
		return doctor.Break("server", n.err.Error(), "Without a majority no lock can be taken or renewed.", mend)
	}
	return doctor.Warn("server", n.err.Error(), "It has no vote until it answers; fewer of the others may be lost.", mend)
}
