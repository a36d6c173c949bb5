package quorum

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/quorum/internal/nodes"
)

// DefaultMaxTTL is the longest TTL of a session unless WithMaxTTL sets another.
const DefaultMaxTTL = time.Minute

// A Node is one of the stores that vote.
type Node struct {
	Name   string        // the same in every process that uses the quorum
	Engine driver.Engine // its sessions are driver.Voters; the quorum does not close it
}

// An Option changes a setting of an engine.
type Option func(*settings)

type settings struct{ maxTTL time.Duration }

// WithMaxTTL sets the longest TTL that a session may have, which is also how long a
// node that lost its data does not vote. All clients of a quorum must agree on it.
func WithMaxTTL(d time.Duration) Option { return func(s *settings) { s.maxTTL = d } }

// ID returns what identifies a quorum of these nodes, in any order, to each of them. It is
// for tools that read what a node knows of its quorum.
func ID(names []string, maxTTL time.Duration) string { return nodes.ID(names, maxTTL) }

// Silence returns how long a node that lost its data does not vote: longer than any lease
// from before the loss can last.
func Silence(maxTTL time.Duration) time.Duration { return nodes.Silence(maxTTL) }

// Engine is a driver.Engine that grants what a majority of its nodes grants. It is
// safe for concurrent use.
type Engine struct {
	set          *nodes.Set
	byName       []int // indexes of the nodes in the order of their names: the same in every process
	features     driver.Features
	proposer     proposer
	secondRounds atomic.Uint64
	sessions     *driverkit.Sessions[*session]
	repairer     *nodes.Repairer
	watches      *watches
	stalled      stalledLines
	held         driverkit.Shared[bool] // whether a majority holds a name for a claim
}

// New returns an engine on these nodes. Every process must name the same nodes, in any
// order; a node refuses clients that name others.
func New(members []Node, opts ...Option) (*Engine, error) {
	cfg := settings{maxTTL: DefaultMaxTTL}
	for _, o := range opts {
		o(&cfg)
	}
	all := make([]nodes.Node, len(members))
	for i, n := range members {
		all[i] = nodes.Node(n)
	}
	set, err := nodes.NewSet(all, cfg.maxTTL)
	if err != nil {
		return nil, err
	}
	e := &Engine{set: set, features: featuresOf(members), sessions: driverkit.NewSessions[*session]("quorum")}
	for i := range all {
		e.byName = append(e.byName, i)
	}
	slices.SortFunc(e.byName, func(a, b int) int { return strings.Compare(all[a].Name, all[b].Name) })
	e.repairer = nodes.NewRepairer(set, e.sessions.Go)
	e.watches = newWatches(set, e.sessions.Go)
	return e, nil
}

// featuresOf returns what a quorum of these nodes can do.
func featuresOf(members []Node) driver.Features {
	f := driver.Features{Push: true, Shared: true, Fencing: driver.Durable, Store: "quorum"}
	for _, n := range members {
		_, watches := n.Engine.(driver.Watcher)
		of := n.Engine.Features()
		f.Push = f.Push && watches
		f.Shared = f.Shared && of.Shared
		f.BySession = f.BySession || of.BySession
	}
	return f
}

// Features reports readers and writers with tokens that never repeat, without a line
// and without semaphores.
func (e *Engine) Features() driver.Features { return e.features }

// SecondRounds returns how many grants needed a second round trip to the nodes because
// the nodes had not all granted the same token.
func (e *Engine) SecondRounds() uint64 { return e.secondRounds.Load() }

// Open starts a session on the nodes that answer; a majority must vote.
func (e *Engine) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	if o.TTL > e.set.MaxTTL {
		return nil, fmt.Errorf("quorum: a TTL of %v is above the longest, %v: ask for less, or raise the longest (max-ttl) for all clients of these nodes: %w", o.TTL, e.set.MaxTTL, driver.ErrUnsupported)
	}
	s := newSession(e, o)
	if err := e.sessions.Add(o.ID, s); err != nil {
		return nil, driver.Join(err, s.Close(ctx))
	}
	if err := s.nodes.Join(ctx); err != nil {
		_ = s.Close(ctx) // nothing was entered
		return nil, err
	}
	return s, nil
}

// Close ends all sessions and goroutines of the engine. The nodes' engines stay open.
func (e *Engine) Close() error { return e.sessions.Close() }
