package redlock

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/quorum"
	"github.com/pawl-go/pawl/redlock/internal/redlockurl"
)

func init() { driver.Register("redlock", open) }

// Once a majority is connected, the other servers get as long again, within these
// bounds: two names of one server are reported at once where both answer.
const (
	minGrace = 10 * time.Millisecond
	maxGrace = 250 * time.Millisecond
)

// open opens the engine of a URL.
func open(ctx context.Context, u *url.URL) (driver.Engine, error) {
	nodes, maxTTL, err := parse(u)
	if err != nil {
		return nil, err
	}
	var all []quorum.Node
	for _, n := range nodes {
		n.dialer = driver.DialerOf(ctx) // it may connect later, for a caller with another ctx
		all = append(all, quorum.Node{Name: n.name, Engine: n})
	}
	e, err := newEngine(all, []quorum.Option{maxTTL})
	if err != nil {
		return nil, driver.BadURL("%s", strings.TrimPrefix(err.Error(), "quorum: "))
	}
	if err := connect(ctx, nodes); err != nil {
		return nil, driver.Join(err, e.Close())
	}
	return e, nil
}

// parse returns a node for each server of a URL.
func parse(u *url.URL) ([]*node, quorum.Option, error) {
	servers, maxTTL, err := redlockurl.Parse(u)
	var nodes []*node
	for _, server := range servers {
		nodes = append(nodes, newNode(server.Name, server.URL))
	}
	return nodes, quorum.WithMaxTTL(maxTTL), err
}

// connect connects to the servers and returns soon after a majority is connected, or
// when the URL turns out to be wrong. The other servers are connected when they answer;
// the quorum then refuses two names of one server.
func connect(ctx context.Context, nodes []*node) error {
	type answer struct {
		node, runID string
		err         error
	}
	answers, start := make(chan answer, len(nodes)), time.Now()
	for _, n := range nodes {
		n.tasks.Go(func() { // ends soon after ctx has ended or the node was closed
			id, err := n.runID(ctx)
			answers <- answer{n.name, id, err}
		})
	}
	var grace <-chan time.Time
	var errs []error
	connected, byRunID, majority := 0, map[string]string{}, len(nodes)/2+1
	for range nodes {
		select {
		case a := <-answers:
			if errors.Is(a.err, driver.ErrURL) {
				return a.err
			}
			if a.err != nil {
				errs = append(errs, a.err)
				continue
			}
			if other, ok := byRunID[a.runID]; ok && a.runID != "" {
				return driver.BadURL("redlock: %s and %s are one server (run id %s), which has one vote: name servers that are each on their own", other, a.node, a.runID)
			}
			byRunID[a.runID] = a.node
			connected++
		case <-grace:
			return nil
		}
		if connected >= majority && grace == nil {
			timer := time.NewTimer(min(max(time.Since(start), minGrace), maxGrace))
			defer timer.Stop()
			grace = timer.C
		}
	}
	if connected >= majority {
		return nil
	}
	return fmt.Errorf("redlock: %d of %d servers were reached, %d are needed: %w", connected, len(nodes), majority, driver.Join(errs...))
}
