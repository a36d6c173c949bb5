package zklock

import (
	"errors"
	"strings"

	"github.com/go-zookeeper/zk"
)

// An Option changes how an engine uses its servers.
type Option func(*options)

type options struct {
	path, prefix   string
	user, password string
	creatorOnly    bool
	dial           zk.Dialer
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
func WithDialer(d zk.Dialer) Option { return func(o *options) { o.dial = d } }

func (o *options) acl() []zk.ACL {
	if o.creatorOnly {
		return zk.AuthACL(zk.PermAll)
	}
	return zk.WorldACL(zk.PermAll)
}

// checkPath returns the error that ZooKeeper would, before anything is sent.
func checkPath(path string) error {
	if !strings.HasPrefix(path, "/") || path == "/" {
		return errors.New("is not absolute, or the root itself")
	}
	for part := range strings.SplitSeq(path[1:], "/") {
		if part == "" || part == "." || part == ".." {
			return errors.New("has an empty part, or one of dots")
		}
		if strings.ContainsFunc(part, forbidden) {
			return errors.New("has characters that ZooKeeper forbids")
		}
	}
	if path == "/zookeeper" || strings.HasPrefix(path, "/zookeeper/") {
		return errors.New("is ZooKeeper's own")
	}
	return nil
}

func forbidden(r rune) bool {
	return r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0 && r <= 0xffff
}
