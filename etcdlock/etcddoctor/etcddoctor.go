// Package etcddoctor examines etcd clusters for package doctor. Importing it registers the
// schemes etcd and etcds.
//
// It writes no key, lease, user or setting. To learn of the right to write it sends
// transactions with a branch that is never taken: the members agree on them, and the
// revision stays as it is.
package etcddoctor

import (
	"context"
	"net/url"
	"sync"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/etcdlock/internal/etcdkeys"
	"github.com/pawl-go/pawl/etcdlock/internal/etcdstore"
)

func init() {
	doctor.Register("etcd", examine)
	doctor.Register("etcds", examine)
}

// A cluster is what was learned before the checks.
type cluster struct {
	url    *url.URL
	prefix string    // what all keys begin with
	named  []*member // in the order of the URL
	others []*member // members that the URL does not name
}

// clusterChecks look at all members together, in the order of the report.
var clusterChecks = []func(context.Context, *cluster) doctor.Finding{
	oneCluster, majority, memberCount, endpoints, alarms,
}

// memberChecks look at each member that the URL names and that answers.
var memberChecks = []func(context.Context, *member) doctor.Finding{
	version, learner, leader, quota, roundTrip,
}

// metricChecks need the metrics of a member.
var metricChecks = []func(context.Context, *member) doctor.Finding{
	leaderChanges, fsync, disk, clock,
}

// examine fails if no member answers, or the members refuse the user.
func examine(ctx context.Context, u *url.URL) ([]doctor.Finding, error) {
	config, prefix, err := etcdstore.ParseURL(u, etcdkeys.DefaultPrefix)
	if err != nil {
		return nil, err
	}
	start, err := etcdkeys.Prefix(prefix)
	if err != nil {
		return nil, driver.BadURL("etcdlock: %v", err)
	}
	c := &cluster{url: u, prefix: start, named: askAll(ctx, config)}
	defer c.close()
	if len(c.answering()) == 0 {
		return nil, c.named[0].err
	}
	c.others = askOthers(ctx, config, c)
	var found []doctor.Finding
	for _, check := range clusterChecks {
		found = append(found, check(ctx, c))
	}
	found = append(found, silent(c)...)
	found = append(found, rights(ctx, c)...)
	c.noteWritten(ctx)
	return append(found, eachMember(ctx, c)...), nil
}

// eachMember runs the checks of members side by side.
func eachMember(ctx context.Context, c *cluster) []doctor.Finding {
	found := make([][]doctor.Finding, len(c.named))
	var work sync.WaitGroup
	for i, m := range c.named {
		if m.status == nil {
			continue
		}
		work.Go(func() { found[i] = m.examine(ctx) })
	}
	work.Wait()
	var all []doctor.Finding
	for _, f := range found {
		all = append(all, f...)
	}
	return all
}

func (m *member) examine(ctx context.Context) (found []doctor.Finding) {
	for _, check := range memberChecks {
		found = append(found, check(ctx, m).At(m.address))
	}
	if m.metrics == nil {
		return append(found, m.noMetrics().At(m.address))
	}
	for _, check := range metricChecks {
		found = append(found, check(ctx, m).At(m.address))
	}
	return found
}

// answering returns the members of the URL that answer.
func (c *cluster) answering() (members []*member) {
	for _, m := range c.named {
		if m.status != nil {
			members = append(members, m)
		}
	}
	return members
}

func (c *cluster) close() {
	for _, m := range append(c.named, c.others...) {
		m.close()
	}
}
