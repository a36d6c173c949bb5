package zklock

import (
	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/zklock/internal/zkstore"
)

// An Option changes how an engine uses its servers.
type Option func(*options)

type options struct {
	path, prefix   string
	user, password string
	creatorOnly    bool
	dial           zkstore.Dialer
}

// WithPath puts everything below the node at this absolute path; the default is /pawl.
// Missing nodes of the path are created.
func WithPath(p string) Option { return func(o *options) { o.path = p } }

// WithPrefix gives the engine a namespace of its own below the path: engines of different
// prefixes share no names and no records.
func WithPrefix(p string) Option { return func(o *options) { o.prefix = p } }

// WithDigest authenticates connections by ZooKeeper's scheme "digest".
func WithDigest(user, password string) Option {
	return func(o *options) { o.user, o.password = user, password }
}

// WithCreatorOnly gives access to the nodes that this engine creates only to clients with
// the same user and password. Without it every client that reaches the servers has access.
func WithCreatorOnly() Option { return func(o *options) { o.creatorOnly = true } }

// WithDialer sets the dialer of connections, for instance for TLS.
func WithDialer(d zk.Dialer) Option { return withDialer(zkstore.WithoutContext(d)) }

func withDialer(d zkstore.Dialer) Option { return func(o *options) { o.dial = d } }

func (o *options) acl() []zk.ACL {
	if o.creatorOnly {
		return zk.AuthACL(zk.PermAll)
	}
	return zk.WorldACL(zk.PermAll)
}
