package etcdlock

import (
	"context"
	"fmt"
	"net/url"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/etcdlock/internal/etcdkeys"
	"github.com/pawl-go/pawl/etcdlock/internal/etcdstore"
)

// defaultPrefix is where keys are kept when nothing else is configured.
const defaultPrefix = etcdkeys.DefaultPrefix

// Engine keeps lines of claims in etcd. It is safe for concurrent use.
type Engine struct {
	store     *etcdstore.Store
	keys      keyspace
	holders   *holderCache
	sessions  *driverkit.Sessions[*session]
	badOption error // returned by every call
}

var (
	_ driver.Engine  = (*Engine)(nil)
	_ driver.Records = (*Engine)(nil)
	_ driver.Watcher = (*Engine)(nil)
)

func init() {
	driver.Register("etcd", openURL)
	driver.Register("etcds", openURL)
}

// openURL opens an engine with a client of its own.
func openURL(ctx context.Context, u *url.URL) (driver.Engine, error) {
	config, prefix, err := etcdstore.ParseURL(u, defaultPrefix)
	if err != nil {
		return nil, err
	}
	keys, err := newKeyspace(prefix)
	if err != nil {
		return nil, driver.BadURL("etcdlock: %v", err)
	}
	if d := driver.DialerOf(ctx); d != nil {
		etcdstore.DialWith(&config, d)
	}
	store, err := etcdstore.Dial(ctx, config, keys.names(""))
	if err != nil {
		return nil, err
	}
	return newEngine(store, keys), nil
}

// Authenticate takes user and password out of config and installs an authentication that
// also works with servers of 3.4. Opening a URL with a password does the same.
//
// The client itself sends its token with every request, also with the one that asks for
// another token. A server of 3.4 refuses that request once the token has expired,
// which happens after five minutes without use: from then on nothing works until the
// client is made anew, and the client asks hundreds of times a second.
func Authenticate(config *clientv3.Config) {
	if config.Username != "" && config.Password != "" {
		etcdstore.NewAuthenticator(config)
	}
}

// An Option changes how an engine uses its cluster.
type Option func(*options)

type options struct{ prefix string }

// WithPrefix makes all keys begin with p and a slash, so that several users of one
// cluster are separate. The default is "pawl"; an empty prefix is allowed. A prefix that
// is not valid UTF-8, or contains control characters or one of the engine's own words,
// is an error of every call.
func WithPrefix(p string) Option { return func(o *options) { o.prefix = p } }

// New returns an engine on the user's client, which it does not close.
//
// A client without keepalive (DialKeepAliveTime) needs minutes to find out that its
// connection is dead; leases end in time all the same, but nothing can be locked until
// then.
func New(client *clientv3.Client, opts ...Option) *Engine {
	o := options{prefix: defaultPrefix}
	for _, opt := range opts {
		opt(&o)
	}
	keys, err := newKeyspace(o.prefix)
	e := newEngine(etcdstore.New(client, keys.names("")), keys)
	if err != nil {
		e.badOption = fmt.Errorf("etcdlock: option WithPrefix: %w", err)
	}
	return e
}

func newEngine(store *etcdstore.Store, keys keyspace) *Engine {
	return &Engine{store: store, keys: keys, holders: newHolderCache(store), sessions: driverkit.NewSessions[*session]("etcdlock")}
}

// Features reports that an etcd engine can do everything.
func (e *Engine) Features() driver.Features {
	return driver.Features{Queue: true, Push: true, Shared: true, Count: true, Fencing: driver.Durable, BySession: true, Store: "etcd"}
}

// Open starts a session: one lease for all its claims. The TTL is rounded up to whole
// seconds, and to the server's minimum.
func (e *Engine) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	if err := e.ready(ctx); err != nil {
		return nil, err
	}
	lease, err := e.store.OpenLease(ctx, o.TTL)
	if err != nil {
		return nil, err
	}
	s := &session{
		id: o.ID, lease: lease, keys: e.keys, holders: e.holders, onClose: e.sessions.Remove,
		claims: map[string]*claimState{}, slots: map[slot]int{}, late: map[slot]int{},
	}
	if err := e.sessions.Add(s.id, s); err != nil {
		_ = s.Close(ctx) // a lease without keys ends by itself
		return nil, err
	}
	return s, nil
}

// ready reports why no call may be sent.
func (e *Engine) ready(ctx context.Context) error {
	if e.badOption != nil {
		return e.badOption
	}
	return e.sessions.Begin(ctx)
}

// Watch reports departures from name's line.
func (e *Engine) Watch(ctx context.Context, name string) (<-chan struct{}, error) {
	if err := e.ready(ctx); err != nil {
		return nil, err
	}
	return e.store.Notify(ctx, e.keys.line(name).all())
}

// Close ends the sessions that are still open with all their claims, and everything
// the engine started. It returns within a bounded time: a cluster that does not answer
// keeps the claims until they expire. A client that the user made stays open.
func (e *Engine) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), etcdstore.CloseTimeout)
	defer cancel()
	err := e.sessions.Close()
	if err = driver.Join(err, e.store.Close(ctx)); err != nil {
		return fmt.Errorf("etcdlock: close: %w", err)
	}
	return nil
}
