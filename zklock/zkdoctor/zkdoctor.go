// Package zkdoctor examines ZooKeeper ensembles for package doctor. Importing it registers
// the scheme zk.
//
// It changes no node. It opens ZooKeeper sessions and closes them, as every client does, and
// to learn of rights and of the disk it sends transactions that fail as a whole.
package zkdoctor

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/zklock/internal/zkpath"
)

func init() { doctor.Register("zk", examine) }

// askLimit bounds each question to one server: as long as pawl's own connections wait
// between two tries.
const askLimit = 5 * time.Second

// An ensemble is what was learned before the checks.
type ensemble struct {
	settings zkpath.Settings
	root     string    // of the engine's nodes
	servers  []*server // in the order of the URL
}

// ensembleChecks look at all servers together, in the order of the report.
var ensembleChecks = []func(context.Context, *ensemble) doctor.Finding{
	oneEnsemble, majority, serverCount, followers, endpoints, sessionLimits,
}

// serverChecks look at each server of the URL that serves.
var serverChecks = []func(context.Context, *server) doctor.Finding{
	version, roundTrip,
}

// settingChecks need a server's answer to the word conf.
var settingChecks = []func(context.Context, *server) doctor.Finding{
	tick, clientLimit,
}

// examine fails if no server answers.
func examine(ctx context.Context, u *url.URL) ([]doctor.Finding, error) {
	settings, err := zkpath.ParseURL(u)
	if err != nil {
		return nil, err
	}
	e := &ensemble{settings: settings, root: zkpath.Root(settings.Path, settings.Prefix)}
	e.ask(ctx)
	defer e.close()
	answered := false
	for _, s := range e.servers {
		answered = answered || s.err == nil
	}
	if !answered {
		return nil, fmt.Errorf("zk: %w: %w", driver.ErrUnreachable, e.servers[0].err)
	}
	var found []doctor.Finding
	for _, check := range ensembleChecks {
		found = append(found, check(ctx, e))
	}
	found = append(found, rights(ctx, e)...)
	return append(found, e.eachServer(ctx)...), nil
}

// eachServer runs the checks of servers side by side.
func (e *ensemble) eachServer(ctx context.Context) (all []doctor.Finding) {
	found := make([][]doctor.Finding, len(e.servers))
	var work sync.WaitGroup
	for i, s := range e.servers {
		work.Go(func() { found[i] = s.examine(ctx) })
	}
	work.Wait()
	for i, list := range found {
		for _, f := range list {
			all = append(all, f.At(e.servers[i].address))
		}
	}
	return all
}

func (s *server) examine(ctx context.Context) []doctor.Finding {
	found := []doctor.Finding{state(s)}
	if s.conn == nil {
		return found
	}
	for _, check := range serverChecks {
		found = append(found, check(ctx, s))
	}
	if s.conf == nil {
		found = append(found, s.denied("settings", "conf", "The tick and the limit of connections were not examined."))
	} else {
		for _, check := range settingChecks {
			found = append(found, check(ctx, s))
		}
	}
	return append(found, forceSync(ctx, s))
}

// serving returns the servers of the URL that serve clients.
func (e *ensemble) serving() (servers []*server) {
	for _, s := range e.servers {
		if s.conn != nil {
			servers = append(servers, s)
		}
	}
	return servers
}

func (e *ensemble) close() {
	var work sync.WaitGroup
	for _, s := range e.serving() {
		work.Go(func() { s.conn.Close() })
	}
	work.Wait()
}
