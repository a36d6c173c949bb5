package redisdoctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

const (
	fewSentinels = 3 // of two, neither can replace the other's vote
	// A stall of a second is common, on a virtual machine or during a fork, and each
	// failover may lose grants.
	shortestDown = time.Second
	// A failover takes a few seconds beside down-after. Both together have to fit into
	// the default TTL, 30 s, less a beat's third, or leases do not outlive it.
	longestDown = 15 * time.Second
)

// A watcher is a sentinel and its view of the master.
type watcher struct {
	addr     string
	user     string
	err      error
	master   map[string]string // SENTINEL MASTER
	quorum   error             // of SENTINEL CKQUORUM
	replicas []string          // addresses
	unlisted error             // why there are no replicas
}

// examineSentinels examines the sentinels of a URL, the master that they name, and the
// replicas, one of which is the next master.
func examineSentinels(ctx context.Context, u *url.URL) ([]doctor.Finding, error) {
	t, err := parse(ctx, u)
	if err != nil {
		return nil, err
	}
	watchers := each(t.Client.InitAddress, func(addr string) watcher { return t.askSentinel(ctx, addr) })
	var found []doctor.Finding
	var errs []error
	var first *watcher
	for i, w := range watchers {
		switch {
		case w.err == nil && first == nil:
			first = &watchers[i]
		case w.err != nil:
			errs = append(errs, w.err)
			found = append(found, sentinelError(&watchers[i]).At(w.addr))
		}
	}
	if first == nil {
		if slices.ContainsFunc(errs, func(err error) bool { return redisclient.Code(err) == "ERR" }) {
			return found, nil // they answer, and the finding says why that is of no use
		}
		return nil, driver.Join(errs...)
	}
	found = append(found, t.sentinelFindings(watchers, first)...)
	addr := net.JoinHostPort(first.master["ip"], first.master["port"])
	found = append(found, t.examineAt(ctx, addr, master)...)
	return append(found, t.examineReplicas(ctx, first)...), nil
}

// each calls f for every address at once, and returns the results in order.
func each[T any](addrs []string, f func(addr string) T) []T {
	all := make([]T, len(addrs))
	var wg sync.WaitGroup
	for i, addr := range addrs {
		wg.Go(func() { all[i] = f(addr) })
	}
	wg.Wait()
	return all
}

// examineAt examines one of several servers. A server that does not answer is a finding.
func (t *store) examineAt(ctx context.Context, addr string, as place) (found []doctor.Finding) {
	s, err := connect(ctx, t, addr)
	if err != nil {
		f := doctor.Break("server", fmt.Sprintf("%v", err), "Locks that are kept there cannot be taken or renewed.", "redis-cli -h "+host(addr)+" -p "+port(addr)+" PING")
		if as == replica {
			f.Level, f.Meaning = doctor.Warning, "It cannot become the master, and confirms no grant."
		}
		return []doctor.Finding{f.At(addr)}
	}
	defer s.close()
	for _, f := range s.examine(ctx, as) {
		found = append(found, f.At(addr))
	}
	return found
}

// askSentinel reads what one sentinel knows.
func (t *store) askSentinel(ctx context.Context, addr string) (w watcher) {
	w.addr, w.user = addr, cmp.Or(t.Client.Sentinel.Username, "default")
	o := t.Client
	o.InitAddress, o.ForceSingleClient, o.SelectDB = []string{addr}, true, 0
	o.Username, o.Password, o.Sentinel = t.Client.Sentinel.Username, t.Client.Sentinel.Password, redis.SentinelOption{}
	s, err := dial(ctx, t, addr, o)
	if err != nil {
		w.err = err
		return w
	}
	defer s.close()
	ctx, cancel := context.WithTimeout(ctx, contact)
	defer cancel()
	name := t.Client.Sentinel.MasterSet
	m, err := s.do(ctx, "SENTINEL", "MASTER", name)
	if err != nil {
		w.err = wrap(addr, err)
		return w
	}
	if w.master, w.err = m.AsStrMap(); w.err != nil {
		return w
	}
	_, w.quorum = s.do(ctx, "SENTINEL", "CKQUORUM", name)
	w.replicas, w.unlisted = s.replicasOf(ctx, name)
	return w
}

// replicasOf asks a sentinel for the addresses of a master's replicas.
func (s *server) replicasOf(ctx context.Context, name string) (addrs []string, err error) {
	m, err := s.do(ctx, "SENTINEL", "SLAVES", name) // as servers before Redis 5 call it too
	if err != nil {
		return nil, err
	}
	all, err := m.ToArray()
	for i := range all {
		one, err := all[i].AsStrMap()
		if err != nil {
			return nil, err
		}
		addrs = append(addrs, net.JoinHostPort(one["ip"], one["port"]))
	}
	return addrs, err
}

// sentinelError is the finding of a sentinel that is of no use.
func sentinelError(w *watcher) doctor.Finding {
	const check = "sentinel"
	switch {
	case redisclient.Code(w.err) == "ERR":
		return doctor.Break(check, w.err.Error(), "It is no sentinel, or does not know this master: clients cannot find the locks.", w.cli("SENTINEL MASTERS"))
	case redisclient.Code(w.err) == "NOPERM":
		return doctor.Warn(check, w.err.Error(), "What it knows of the master was not checked.", w.allow("sentinel|master"))
	case errors.Is(w.err, driver.ErrDenied):
		return doctor.Warn(check, w.err.Error(), "Clients with this login do not find the master there.", w.cli("ACL LIST"))
	}
	return doctor.Warn(check, w.err.Error(), "With one more sentinel away there may be no failover.", w.cli("PING"))
}

// cli is the line that sends a command to a sentinel.
func (w *watcher) cli(command string) string {
	return "redis-cli -h " + host(w.addr) + " -p " + port(w.addr) + " " + command
}

// allow is the line that gives our user a right at a sentinel.
func (w *watcher) allow(right string) string { return w.cli("ACL SETUSER " + w.user + " +" + right) }

// unasked is the line after a question failed: it gives the right, if that was missing.
func (w *watcher) unasked(err error, right, command string) string {
	if redisclient.Code(err) == "NOPERM" {
		return w.allow(right)
	}
	return w.cli(command)
}

// sentinelFindings judges what the sentinels say.
func (t *store) sentinelFindings(all []watcher, first *watcher) []doctor.Finding {
	name := t.Client.Sentinel.MasterSet
	found := []doctor.Finding{agreement(all), masterUp(all), sentinelCount(first, name)}
	found = append(found, ofEach(all, name, sentinelQuorum)...)
	found = append(found, failover(all, name))
	return append(found, ofEach(all, name, downAfter)...)
}

// ofEach makes a check at every sentinel that answers: each has settings of its own. It
// returns what is wrong, or the finding of the first one.
func ofEach(all []watcher, name string, check func(*watcher, string) doctor.Finding) (found []doctor.Finding) {
	good := doctor.Finding{}
	for i := range all {
		if w := &all[i]; w.err == nil {
			switch f := check(w, name); {
			case f.Level != doctor.OK:
				found = append(found, f.At(w.addr))
			case good.Check == "":
				good = f
			}
		}
	}
	if len(found) == 0 {
		found = append(found, good)
	}
	return found
}

// agreement says whether the sentinels name the same master.
func agreement(all []watcher) doctor.Finding {
	named := map[string]bool{}
	for _, w := range all {
		if w.err == nil {
			named[net.JoinHostPort(w.master["ip"], w.master["port"])] = true
		}
	}
	names := strings.Join(slices.Sorted(maps.Keys(named)), " and ")
	if len(named) > 1 {
		return doctor.Break("master", "the sentinels name "+names, "Clients of different sentinels take the same lock at different servers.",
			"redis-cli -h SENTINEL -p 26379 SENTINEL MASTERS # wait for the end of a failover, or give each cluster a name of its own")
	}
	return doctor.Good("master", names)
}

// masterUp says whether the sentinels reach the master. While some do, a failover by the
// word of another would leave two masters for a moment.
func masterUp(all []watcher) doctor.Finding {
	const check = "master state"
	var missing, reaching *watcher
	for i := range all {
		switch flags := all[i].master["flags"]; {
		case all[i].err != nil:
		case strings.Contains(flags, "down") || strings.Contains(flags, "disconnected"):
			missing = cmp.Or(missing, &all[i])
		default:
			reaching = cmp.Or(reaching, &all[i])
		}
	}
	switch {
	case missing == nil:
		return doctor.Good(check, reaching.master["flags"])
	case reaching != nil:
		return doctor.Warn(check, "the sentinel says "+missing.master["flags"]+", "+reaching.addr+" does not", "It votes for a failover that is not needed, and each may lose grants.",
			"redis-cli -h "+missing.master["ip"]+" -p "+missing.master["port"]+" PING # where this sentinel runs").At(missing.addr)
	}
	return doctor.Break(check, "the sentinel says "+missing.master["flags"], "No lock can be taken until the master is back or replaced.",
		missing.cli("SENTINEL FAILOVER "+missing.master["name"])+" # if it does not come back")
}

// sentinelCount says whether there are enough sentinels.
func sentinelCount(w *watcher, name string) doctor.Finding {
	n := number(w.master["num-other-sentinels"]) + 1
	found := fmt.Sprintf("%d sentinels", n)
	if n < fewSentinels {
		return doctor.Warn("sentinels", found, "Without a majority of the sentinels there is no failover; of fewer than three none may be lost.",
			fmt.Sprintf("sentinel monitor %s %s %s %d", name, w.master["ip"], w.master["port"], fewSentinels/2+1))
	}
	return doctor.Good("sentinels", found)
}

// sentinelQuorum compares the quorum with the number of sentinels.
func sentinelQuorum(w *watcher, name string) doctor.Finding {
	quorum, n := number(w.master["quorum"]), number(w.master["num-other-sentinels"])+1
	found := fmt.Sprintf("quorum %d of %d sentinels", quorum, n)
	mend := w.cli(fmt.Sprintf("SENTINEL SET %s quorum %d", name, n/2+1))
	switch {
	case quorum > n:
		return doctor.Break("quorum", found, "The master is never replaced: a failure ends all locks until it is back.", mend)
	case quorum < n/2+1:
		return doctor.Warn("quorum", found, "Few sentinels that miss the master start a failover, and each may lose grants.", mend)
	}
	return doctor.Good("quorum", found)
}

// failover says whether enough sentinels are usable now: one that knows of too few is
// enough to say no.
func failover(all []watcher, name string) doctor.Finding {
	const check = "failover"
	found := doctor.Good(check, "possible")
	for _, w := range all {
		switch {
		case w.err != nil || w.quorum == nil:
		case redisclient.Code(w.quorum) == "NOQUORUM":
			return doctor.Break(check, driver.OneLine(w.quorum.Error()), "The master would not be replaced now: its failure ends all locks.",
				w.cli("SENTINEL SENTINELS "+name)).At(w.addr)
		default:
			found = doctor.Warn(check, "cannot ask: "+driver.OneLine(wrap(w.addr, w.quorum).Error()), "Whether the master would be replaced now is not known.",
				w.unasked(w.quorum, "sentinel|ckquorum", "SENTINEL CKQUORUM "+name)).At(w.addr)
		}
	}
	return found
}

// downAfter says whether a failover begins too early or too late.
func downAfter(w *watcher, name string) doctor.Finding {
	const check = "down-after"
	after := milliseconds(w.master["down-after-milliseconds"])
	found := "down-after-milliseconds is " + w.master["down-after-milliseconds"]
	mend := w.cli("SENTINEL SET " + name + " down-after-milliseconds 5000")
	switch {
	case after < shortestDown:
		return doctor.Warn(check, found, "A short stall of the master starts a failover, and each may lose grants.", mend)
	case after > longestDown:
		return doctor.Warn(check, found, "Leases of the default TTL, 30 s, do not outlive a failover.", mend)
	}
	return doctor.Good(check, found)
}

// examineReplicas examines the settings that count once a replica is the master.
func (t *store) examineReplicas(ctx context.Context, w *watcher) (found []doctor.Finding) {
	if w.unlisted != nil {
		name := t.Client.Sentinel.MasterSet
		return []doctor.Finding{doctor.Warn("replica list", "cannot read it: "+driver.OneLine(wrap(w.addr, w.unlisted).Error()), "The settings of the servers that may become the master were not checked.",
			w.unasked(w.unlisted, "sentinel|slaves", "SENTINEL SLAVES "+name)).At(w.addr)}
	}
	for _, f := range each(w.replicas, func(addr string) []doctor.Finding { return t.examineAt(ctx, addr, replica) }) {
		found = append(found, f...)
	}
	return found
}
