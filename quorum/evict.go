package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/quorum/internal/nodes"
)

// evictPasses is how often Evict looks for the rest of a claim: an Enter may still be on
// its way to a node that its caller did not wait for.
const evictPasses = 3

// Evict breaks the claim at every node that has it. It returns ErrGone if no majority
// holds it as x shows it.
func (e *Engine) Evict(ctx context.Context, x driver.Entry) error {
	lines, err := e.requireMajority(ctx, e.NodeLines(ctx, x.Name))
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(e.merge(lines), func(y driver.Entry) bool {
		return y.Name == x.Name && y.ID == x.ID && y.Try == x.Try && y.Fence == x.Fence && y.Held == x.Held
	}) {
		return driver.ErrGone
	}
	for range evictPasses {
		failed := e.evictAt(ctx, lines, x)
		if len(failed)+len(e.set.Nodes)-len(lines) >= e.set.Majority { // nodes that did not answer may hold it
			return fmt.Errorf("%w: quorum: not evicted at enough nodes: %w", driver.ErrUnreachable, driver.Join(failed...))
		}
		if !driverkit.Pause(ctx, time.Millisecond) {
			return nil // it was broken
		}
		if lines, err = e.requireMajority(ctx, e.NodeLines(ctx, x.Name)); err != nil {
			return nil
		}
	}
	return nil
}

// evictAt breaks a claim at the nodes that show it, and returns the errors of the nodes
// that did not.
func (e *Engine) evictAt(ctx context.Context, lines []NodeLine, x driver.Entry) (failed []error) {
	for _, l := range lines {
		for _, at := range l.Entries {
			if at.ID != x.ID || at.Try != x.Try {
				continue
			}
			if err := e.engineOf(l.Node).Evict(ctx, at); err != nil && !errors.Is(err, driver.ErrGone) {
				failed = append(failed, fmt.Errorf("%s: %w", l.Node, err))
			}
		}
	}
	return failed
}

func (e *Engine) engineOf(node string) driver.Engine {
	i := slices.IndexFunc(e.set.Nodes, func(n nodes.Node) bool { return n.Name == node })
	return e.set.Nodes[i].Engine
}
