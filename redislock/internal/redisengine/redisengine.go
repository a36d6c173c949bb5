// Package redisengine makes an engine of a client and options: with scripts package
// redisline's, without them package scriptless's. Packages redislock/goredis and
// redislock/rueidis call it.
package redisengine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/keyspace"
	"github.com/pawl-go/pawl/redislock/internal/redisclient"
	"github.com/pawl-go/pawl/redislock/internal/redisline"
	"github.com/pawl-go/pawl/redislock/internal/scriptless"
)

// Defaults of [Options].
const (
	DefaultPrefix         = "pawl:"
	DefaultReplicaTimeout = time.Second
)

// Options are what package redislock's options set.
type Options struct {
	Prefix          string
	Replicas        int
	ReplicaTimeout  time.Duration
	EvictionAllowed bool
	WithoutScripts  bool
	EvictionRecheck time.Duration // how often the eviction policy is read again; 0: the default
	Refuse          error         // what every call answers, if it is not nil
}

// Apply returns the defaults with options applied.
func Apply[O ~func(*Options)](opts []O) Options {
	o := Options{Prefix: DefaultPrefix}
	for _, opt := range opts {
		opt(&o)
	}
	if o.ReplicaTimeout == 0 {
		o.ReplicaTimeout = DefaultReplicaTimeout
	}
	return o
}

// Check returns what is wrong with options, as far as that is known without a server.
func (o Options) Check(cluster bool) error {
	return driver.Join(o.Refuse, keyspace.New(o.Prefix, "", cluster).Check(), o.checkReplicas())
}

func (o Options) checkReplicas() error {
	switch {
	case o.Replicas < 0:
		return errors.New("redislock: a negative number of replicas to wait for")
	case o.Replicas > 0 && o.ReplicaTimeout < time.Millisecond:
		return errors.New("redislock: the time to wait for replicas is less than a millisecond")
	case o.Replicas > 0 && o.WithoutScripts:
		return errors.New("redislock: waiting for replicas needs scripts")
	}
	return nil
}

// An Engine can be asked whether its server is fit for it.
type Engine interface {
	driver.Engine
	Ready(ctx context.Context) error
}

// New returns an engine on c. It asks nothing of the server yet, so a bad option is
// reported by the first call.
func New(c redisclient.Client, o Options) Engine {
	var id [12]byte
	_, _ = rand.Read(id[:]) // never fails
	keys := keyspace.New(o.Prefix, hex.EncodeToString(id[:]), c.Clustered())
	lister := keyspace.Lister{Client: c, Keys: keys, Refuse: o.Check(c.Clustered())}
	eviction := redisclient.NewEvictionCheck(c, o.EvictionAllowed, o.EvictionRecheck)
	if o.WithoutScripts {
		return scriptless.New(scriptless.Config{Lister: lister, Eviction: eviction})
	}
	return redisline.New(redisline.Config{Lister: lister, Eviction: eviction, Replicas: o.Replicas, ReplicaTimeout: o.ReplicaTimeout})
}

// Open is [New] after the server was asked whether it may evict keys and, if probe is
// set, whether it runs scripts. A server that does not run them is used without.
func Open(ctx context.Context, c redisclient.Client, probe bool, o Options) (driver.Engine, error) {
	var refused error
	if probe {
		if refused = tryScript(ctx, c); refused != nil && !errors.Is(refused, driver.ErrDenied) && !errors.Is(refused, driver.ErrUnsupported) {
			return nil, refused
		}
		o.WithoutScripts = o.WithoutScripts || refused != nil
	}
	e := New(c, o)
	if err := e.Ready(ctx); err != nil {
		if refused != nil {
			err = fmt.Errorf("%w (and: %w)", refused, err)
		}
		return nil, err
	}
	return e, nil
}

// tryScript returns why the server runs no scripts, ErrDenied or ErrUnsupported; any
// other error has another cause.
func tryScript(ctx context.Context, c redisclient.Client) error {
	_, err := c.Do(ctx, redisclient.Call{Name: "EVAL", Args: []string{"return 1", "0"}})
	if redisclient.Code(err) == "ERR" {
		return fmt.Errorf("redislock: %w: the server runs no scripts: %w", driver.ErrUnsupported, err)
	}
	return redisclient.Wrap(err)
}
