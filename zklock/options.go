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
	creator        bool
	dial           zk.Dialer
}

// Path puts everything below the node at this absolute path; without it, below
// /pawl. What is missing of it is made.
func Path(p string) Option { return func(o *options) { o.path = p } }

// Prefix gives the engine a place of its own below the path, so that several
// users of it do not meet.
func Prefix(p string) Option { return func(o *options) { o.prefix = p } }

// Digest has connections say who they are, by ZooKeeper's scheme "digest".
func Digest(user, password string) Option {
	return func(o *options) { o.user, o.password = user, password }
}

// CreatorOnly lets only those who said the same user and password use what this
// engine makes. Without it, everybody who reaches the servers may.
func CreatorOnly() Option { return func(o *options) { o.creator = true } }

// Dial has connections made by d, as for TLS.
func Dial(d zk.Dialer) Option { return func(o *options) { o.dial = d } }

func (o *options) acl() []zk.ACL {
	if o.creator {
		return zk.AuthACL(zk.PermAll)
	}
	return zk.WorldACL(zk.PermAll)
}

// checkPath refuses what ZooKeeper would, before anything is sent.
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
