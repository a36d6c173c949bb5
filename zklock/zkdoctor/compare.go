package zkdoctor

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
)

// differ compares the servers by when their nodes were created: nodes of one ensemble have
// the same transaction numbers everywhere. It also returns why servers could not be compared.
func (e *ensemble) differ(ctx context.Context, servers []*server) (different, unknown string) {
	if len(servers) < 2 {
		return "", ""
	}
	for _, s := range servers[1:] {
		same, err := e.sameNodes(ctx, servers[0], s)
		switch {
		case err != nil:
			unknown = fmt.Sprintf("cannot compare %s and %s: %v", servers[0].address, s.address, err)
		case !same:
			return fmt.Sprintf("%s and %s have different nodes", servers[0].address, s.address), ""
		}
	}
	return "", unknown
}

// sameNodes compares two servers. The first one is asked again after the other one, so
// that a change meanwhile is not taken for a difference.
func (e *ensemble) sameNodes(ctx context.Context, first, other *server) (same bool, err error) {
	const tries = 5
	for range tries {
		var texts [3]string
		for i, s := range []*server{first, other, first} {
			if texts[i], err = s.signature(ctx, e.root); err != nil {
				return false, err
			}
		}
		if before, theirs, after := texts[0], texts[1], texts[2]; before == theirs || before == after {
			return before == theirs, nil
		}
	}
	return false, errors.New("their nodes change all the time")
}

// signature tells when the root's children were last changed, and when each node of the
// engine's path was created. Sync makes a follower catch up first.
func (s *server) signature(ctx context.Context, root string) (text string, err error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	paths := []string{"/"}
	for i, c := range root {
		if c == '/' && i > 0 {
			paths = append(paths, root[:i])
		}
	}
	var stats []zk.Stat
	err = s.conn.Call(ctx, func(c *zk.Conn) error {
		if _, err := c.Sync("/"); err != nil {
			return err
		}
		for _, path := range append(paths, root) {
			_, stat, err := c.Exists(path)
			if err != nil {
				return err
			}
			stats = append(stats, *stat)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	for i, stat := range stats {
		text += fmt.Sprintf("%x ", stat.Czxid)
		if i == 0 {
			text += fmt.Sprintf("%x %d ", stat.Pzxid, stat.Cversion)
		}
	}
	return text, nil
}
