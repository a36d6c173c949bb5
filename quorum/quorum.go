package quorum

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// DefaultMaxTTL is the longest TTL of a session unless WithMaxTTL says otherwise.
const DefaultMaxTTL = time.Minute

// A Node is one of the stores that vote.
type Node struct {
	Name   string        // the same in every process that uses the quorum
	Engine driver.Engine // its sessions are driver.Voters; it is not closed by the quorum
}

// An Option sets one thing about an engine.
type Option func(*Engine)

// WithMaxTTL sets the longest TTL that a session may have, which is how long a
// node that lost its data stays silent. All clients of a quorum must agree on it.
func WithMaxTTL(d time.Duration) Option { return func(e *Engine) { e.maxTTL = d } }

// Engine asks a majority. It is safe for concurrent use.
type Engine struct {
	nodes    []Node
	order    []int // the nodes by name, which is the same in every process
	majority int
	maxTTL   time.Duration
	list     string // names the quorum to its nodes
	features driver.Features
	lead     lead
	stores   stores
	seconds  atomic.Uint64 // grants that took a second round

	ctx    context.Context // ends with Close
	finish context.CancelFunc
	tasks  sync.WaitGroup
	mender mender

	mu       sync.Mutex // guards what follows
	sessions map[*session]struct{}
	watches  map[string]*watch
	closed   bool
}

// New returns an engine that asks these nodes. Every process must name the same
// nodes, in any order; a node refuses those that name others.
func New(nodes []Node, opts ...Option) (*Engine, error) {
	e := &Engine{
		nodes:    slices.Clone(nodes),
		majority: len(nodes)/2 + 1,
		maxTTL:   DefaultMaxTTL,
		sessions: map[*session]struct{}{},
		watches:  map[string]*watch{},
	}
	for _, o := range opts {
		o(e)
	}
	if err := e.check(); err != nil {
		return nil, err
	}
	e.list = e.hash()
	e.stores.at = make([]string, len(nodes))
	e.order = make([]int, len(nodes))
	for i := range e.order {
		e.order[i] = i
	}
	slices.SortFunc(e.order, func(a, b int) int { return strings.Compare(nodes[a].Name, nodes[b].Name) })
	e.features = driver.Features{Push: true, Shared: true, Fencing: driver.Durable}
	for _, n := range nodes {
		_, watches := n.Engine.(driver.Watcher)
		e.features.Push = e.features.Push && watches
		can := n.Engine.Features()
		e.features.Shared = e.features.Shared && can.Shared
		e.features.BySession = e.features.BySession || can.BySession
	}
	e.ctx, e.finish = context.WithCancel(context.Background())
	e.mender.e = e
	return e, nil
}

func (e *Engine) check() error {
	if len(e.nodes) < 3 {
		return fmt.Errorf("quorum: %d nodes; a majority that survives the loss of one needs three", len(e.nodes))
	}
	if e.maxTTL < time.Millisecond {
		return fmt.Errorf("quorum: the longest ttl is %v", e.maxTTL)
	}
	seen := map[string]bool{}
	for _, n := range e.nodes {
		if n.Name == "" || seen[n.Name] {
			return fmt.Errorf("quorum: node %q is named twice or not at all", n.Name)
		}
		seen[n.Name] = true
	}
	return nil
}

// hash names the quorum: its nodes, and for how long a node that lost its data
// is silent, which is as dangerous to disagree on.
func (e *Engine) hash() string {
	var names []string
	for _, n := range e.nodes {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	sum := sha256.Sum256([]byte(strings.Join(names, "\x00") + "\x00\x00" + e.maxTTL.String()))
	return hex.EncodeToString(sum[:16])
}

// Features reports readers and writers with tokens that never repeat, without a
// line and without semaphores.
func (e *Engine) Features() driver.Features { return e.features }

var errClosed = errors.New("quorum: engine is closed")

// SecondRounds returns how many grants have needed a second round, which costs one
// more trip to the nodes: they had not all granted the same token.
func (e *Engine) SecondRounds() uint64 { return e.seconds.Load() }

// Open starts a session on the nodes that answer; a majority must vote.
func (e *Engine) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	if o.TTL > e.maxTTL {
		return nil, fmt.Errorf("quorum: a TTL of %v is above the longest, %v: ask for less, or raise the longest (max-ttl) for all who use these nodes: %w", o.TTL, e.maxTTL, driver.ErrUnsupported)
	}
	s := newSession(e, o)
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		s.finish()
		return nil, errClosed
	}
	e.sessions[s] = struct{}{}
	e.mu.Unlock()
	if err := s.muster(ctx); err != nil {
		_ = s.Close(ctx) // nothing was entered
		return nil, err
	}
	return s, nil
}

// Close ends every session and what the engine started. The nodes stay open.
func (e *Engine) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	var open []*session
	for s := range e.sessions {
		open = append(open, s)
	}
	e.mu.Unlock()
	e.finish()
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	var errs []error
	for _, s := range open {
		errs = append(errs, s.Close(ctx))
	}
	e.tasks.Wait()
	return driver.Join(errs...)
}

// closeLimit is how long Close waits for nodes that do not answer.
const closeLimit = 5 * time.Second

// start runs f as a task that Close awaits, unless the engine is closed.
func (e *Engine) start(f func()) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	e.tasks.Go(f)
	return true
}
