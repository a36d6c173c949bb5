// Package natsdoctor examines servers of NATS JetStream for package doctor. Importing it
// registers the scheme nats.
//
// It makes no bucket and writes no message to one. To learn of rights it sends requests
// that the servers refuse for another reason, and looks whether they refuse them for this
// one.
package natsdoctor

import (
	"context"
	"net"
	"net/url"
	"strings"
	"sync"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/natslock/internal/natsstore"
)

func init() { doctor.Register("nats", examiner{usualMonitor}.examine) }

// An examiner asks servers as clients, and their monitoring pages where there are any.
type examiner struct {
	monitorOf func(address string) string // where the monitoring page of a server may be
}

// usualMonitor is the port of NATS's documentation. A client cannot ask for the port; a page
// counts only if it has the server's own ID.
func usualMonitor(address string) string {
	host, _, _ := net.SplitHostPort(address)
	return net.JoinHostPort(host, "8222")
}

// A store is what was learned before the checks.
type store struct {
	url      *url.URL
	settings natsstore.Settings
	servers  []*server // in the order of the URL
	js       jetStream // as the first server that answers sees it
}

// storeChecks look at JetStream and at the servers together, in the order of the report.
var storeChecks = []func(context.Context, *store) doctor.Finding{
	oneStore, jetStreamOn, endpoints,
}

// bucketChecks look at a bucket that exists.
var bucketChecks = []func(context.Context, *store) doctor.Finding{
	leader, replicas, persistence, acknowledged, protected, space, messageSize, clock,
}

// serverChecks look at each server that answers.
var serverChecks = []func(context.Context, *server) doctor.Finding{
	version, roundTrip, syncInterval,
}

// examine fails if no server answers, or they refuse the user.
func (x examiner) examine(ctx context.Context, u *url.URL) ([]doctor.Finding, error) {
	settings, err := natsstore.ParseURL(u)
	if err != nil {
		return nil, err
	}
	s := &store{url: u, settings: settings, servers: x.askAll(ctx, settings)}
	defer s.close()
	first := s.first()
	if first == nil {
		return nil, s.servers[0].err
	}
	s.js = first.askJetStream(ctx, settings.Bucket)
	var found []doctor.Finding
	for _, check := range storeChecks {
		found = append(found, check(ctx, s))
	}
	if s.js.on() {
		found = append(found, bucket(s))
	}
	if s.js.info != nil {
		for _, check := range bucketChecks {
			found = append(found, check(ctx, s))
		}
	}
	found = append(found, rights(ctx, s)...)
	return append(found, s.eachServer(ctx)...), nil
}

// eachServer runs the checks of servers side by side.
func (s *store) eachServer(ctx context.Context) (all []doctor.Finding) {
	found := make([][]doctor.Finding, len(s.servers))
	var work sync.WaitGroup
	for i, one := range s.servers {
		work.Go(func() {
			found[i] = append(found[i], answers(one))
			if one.conn == nil {
				return
			}
			for _, check := range serverChecks {
				found[i] = append(found[i], check(ctx, one))
			}
		})
	}
	work.Wait()
	for i, list := range found {
		for _, f := range list {
			all = append(all, f.At(s.servers[i].address))
		}
	}
	return all
}

// first returns the first server that answers, or nil.
func (s *store) first() *server {
	for _, one := range s.servers {
		if one.conn != nil {
			return one
		}
	}
	return nil
}

func (s *store) stream() string { return natsstore.StreamName(s.settings.Bucket) }

// storeURL is the URL with other hosts or another bucket. It does not show the password.
func (s *store) storeURL(bucket string, hosts ...string) string {
	login := ""
	if s.url.User != nil {
		login = "USER:PASSWORD@"
	}
	return "PAWL_STORE=nats://" + login + strings.Join(hosts, ",") + "/" + bucket
}

func (s *store) close() {
	for _, one := range s.servers {
		if one.conn != nil {
			one.endDials()
			one.conn.Close()
		}
	}
}
