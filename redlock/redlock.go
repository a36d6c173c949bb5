// Package redlock is Redlock with fencing tokens: a lock that a majority of
// independent Redis servers holds. See package quorum for how it works and for
// why its tokens are unique, and docs/redlock.md for when to use it.
//
// Use it where there are several Redis servers that do not replicate to each
// other, and a lock must survive the loss of any minority of them. Where there is
// one Redis, or one with replicas, package redislock does more and costs less;
// where there is etcd or ZooKeeper, a real consensus gives a line as well.
//
// URLs: redlock://host1,host2,host3, or redlock://user:password@host1:6379,…/db
// with the parameters of redis:// that concern one server, and max-ttl, the
// longest TTL a session may have (1m). Every client must name the same hosts, in
// any order but in the same words, and the same max-ttl: the servers refuse
// those who name others.
package redlock

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/quorum"
	"github.com/pawl-go/pawl/redislock/rueidis"
)

func init() { driver.Register("redlock", open) }

// New returns an engine on clients of independent Redis servers, by names that
// must be the same in every process. The clients stay the caller's. With clients
// of another library, make engines of them and call [quorum.New].
func New(clients map[string]redis.Client, opts ...quorum.Option) (*quorum.Engine, error) {
	var nodes []quorum.Node
	for name, c := range clients {
		nodes = append(nodes, quorum.Node{Name: name, Engine: rueidis.New(c)})
	}
	return quorum.New(nodes, opts...)
}

// known are the parameters of a URL that are passed on to each server's.
var known = []string{"prefix", "allow-eviction", "tls", "tls-ca", "tls-cert", "tls-key", "tls-name"}

// owned is an engine with the servers' own engines, which it closes.
type owned struct {
	*quorum.Engine
	nodes []*node
}

// Close ends the engine and its connections.
func (o *owned) Close() error {
	errs := []error{o.Engine.Close()}
	for _, n := range o.nodes {
		errs = append(errs, n.Close())
	}
	return driver.Join(errs...)
}

func open(ctx context.Context, u *url.URL) (driver.Engine, error) {
	nodes, opts, err := parse(u)
	if err != nil {
		return nil, err
	}
	var all []quorum.Node
	for _, n := range nodes {
		all = append(all, quorum.Node{Name: n.name, Engine: n})
	}
	e, err := quorum.New(all, opts...)
	if err != nil {
		return nil, driver.BadURL("%s", strings.TrimPrefix(err.Error(), "quorum: "))
	}
	o := &owned{e, nodes}
	if err := o.reach(ctx); err != nil {
		return nil, driver.Join(err, o.Close())
	}
	return o, nil
}

// parse makes a URL for each server of one for all.
func parse(u *url.URL) (nodes []*node, opts []quorum.Option, err error) {
	if u.Opaque != "" || u.Host == "" {
		return nil, nil, driver.BadURL("redlock: the URL has no hosts: write redlock://host1,host2,host3")
	}
	q := u.Query()
	for key, values := range q {
		if key == "max-ttl" {
			d, err := time.ParseDuration(values[len(values)-1])
			if err != nil || d < time.Millisecond {
				return nil, nil, driver.BadURL("redlock: max-ttl is not a duration of a millisecond or more")
			}
			opts = append(opts, quorum.WithMaxTTL(d))
		} else if !slices.Contains(known, key) {
			return nil, nil, driver.BadURL("redlock: unknown %s (known: max-ttl, %s)", driver.ShowParameter(u, key), strings.Join(known, ", "))
		}
	}
	q.Del("max-ttl")
	seen := map[string]bool{}
	for host := range strings.SplitSeq(u.Host, ",") {
		if host == "" || seen[host] {
			return nil, nil, driver.BadURL("redlock: a host is named twice or not at all")
		}
		seen[host] = true
		one := *u
		one.Scheme, one.Host, one.RawQuery = "redis", host, q.Encode()
		nodes = append(nodes, newNode(host, &one))
	}
	return nodes, opts, nil
}

// Once a majority is there, the others have as long again to answer, within these
// bounds: two names of one server are told at once where both answer.
const (
	minGrace = 10 * time.Millisecond
	maxGrace = 250 * time.Millisecond
)

// reach connects to the servers and comes back soon after a majority is there, or
// when the URL has shown to be wrong. The others are reached when they answer, and
// the quorum refuses those that are one server then.
func (o *owned) reach(ctx context.Context) error {
	type answer struct {
		node, run string
		err       error
	}
	answers, began := make(chan answer, len(o.nodes)), time.Now()
	for _, n := range o.nodes {
		n.tasks.Go(func() {
			run, err := n.identify(ctx)
			answers <- answer{n.name, run, err}
		})
	}
	var grace <-chan time.Time
	var errs []error
	reached, by := 0, map[string]string{}
	for heard := 0; heard < len(o.nodes); heard++ {
		select {
		case a := <-answers: // comes soon after ctx has ended
			if errors.Is(a.err, driver.ErrURL) {
				return a.err
			}
			if a.err != nil {
				errs = append(errs, a.err)
				continue
			}
			if other, ok := by[a.run]; ok && a.run != "" {
				return driver.BadURL("redlock: %s and %s are one server (run id %s), which has one vote: name servers that are each on their own", other, a.node, a.run)
			}
			by[a.run] = a.node
			reached++
		case <-grace:
			return nil
		}
		if reached > len(o.nodes)/2 && grace == nil {
			timer := time.NewTimer(min(max(time.Since(began), minGrace), maxGrace))
			defer timer.Stop()
			grace = timer.C
		}
	}
	if reached > len(o.nodes)/2 {
		return nil
	}
	return fmt.Errorf("redlock: %d of %d servers were reached, %d are needed: %w", reached, len(o.nodes), len(o.nodes)/2+1, driver.Join(errs...))
}
