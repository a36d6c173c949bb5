package zkdoctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/zklock/internal/zkpath"
)

// The right that an operation needs, on the node above it.
const (
	toRead   = "read"
	toCreate = "create"
	toDelete = "delete"
)

// rights asks for each right on each of the engine's nodes.
func rights(ctx context.Context, e *ensemble) (found []doctor.Finding) {
	servers := e.serving()
	if len(servers) == 0 {
		return []doctor.Finding{doctor.Warn("rights", "not examined: no server serves", "Whether pawl may do what it needs is not known.", startSilent)}
	}
	for _, dir := range []string{zkpath.LinesDir, zkpath.RecordsDir, zkpath.EvictionsDir} {
		found = append(found, e.rightsOn(ctx, servers[0], e.root+dir)...)
	}
	return found
}

func (e *ensemble) rightsOn(ctx context.Context, s *server, node string) (found []doctor.Finding) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	err := s.conn.Call(ctx, func(c *zk.Conn) error {
		_, _, err := c.Children(node)
		return err
	})
	if errors.Is(err, zk.ErrNoNode) {
		err = nil // who creates it may read it
	}
	found = append(found, e.right(toRead, node, node, err))
	for _, right := range []string{toCreate, toDelete} {
		on, err := e.try(ctx, s, right, node)
		found = append(found, e.right(right, node, on, err))
	}
	return found
}

// try sends a transaction that would create a node below node, with what is missing above
// it, and delete it again, and that fails at its last operation: no node has that version.
// It returns the node on which the right is missing.
func (e *ensemble) try(ctx context.Context, s *server, right, node string) (on string, err error) {
	const never = 1<<31 - 1
	acl := zk.WorldACL(zk.PermAll)
	if e.settings.CreatorOnly {
		acl = zk.AuthACL(zk.PermAll)
	}
	missing, err := missingNodes(ctx, s, node)
	if err != nil {
		return node, err
	}
	probe := node + "/pawl-doctor"
	var ops []any
	for _, path := range append(missing, probe) {
		ops = append(ops, &zk.CreateRequest{Path: path, Acl: acl})
	}
	creates := len(ops)
	if right == toDelete {
		ops = append(ops, &zk.DeleteRequest{Path: probe, Version: -1})
	}
	ops = append(ops, &zk.CheckVersionRequest{Path: "/", Version: never})
	var results []zk.MultiResponse
	err = s.conn.Call(ctx, func(c *zk.Conn) (err error) {
		results, err = c.Multi(ops...)
		return err
	})
	if ctx.Err() != nil || errors.Is(err, driver.ErrUnreachable) || errors.Is(err, driver.ErrGone) {
		return node, err // the call may still write results
	}
	if len(results) != len(ops) {
		return node, err
	}
	for i, r := range results[:len(ops)-1] {
		switch denied := errors.Is(r.Error, zk.ErrNoAuth) || errors.Is(r.Error, zk.ErrInvalidACL); {
		case !denied:
		case i >= creates:
			return node, fmt.Errorf("%w: %w", driver.ErrDenied, r.Error)
		case right == toDelete:
			return node, errors.New("nothing can be created there that could be deleted")
		default:
			return parent(ops[i].(*zk.CreateRequest).Path), fmt.Errorf("%w: %w", driver.ErrDenied, r.Error)
		}
	}
	return node, nil
}

func parent(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}

// missingNodes returns a node and those above it that do not exist, from the top.
func missingNodes(ctx context.Context, s *server, node string) (missing []string, err error) {
	for path := node; path != "/"; path = parent(path) {
		exists := false
		err := s.conn.Call(ctx, func(c *zk.Conn) (err error) {
			exists, _, err = c.Exists(path)
			return err
		})
		if err != nil {
			return nil, err
		}
		if exists {
			break
		}
		missing = append([]string{path}, missing...)
	}
	return missing, nil
}

// right is the finding about one right; on is the node that lacks it.
func (e *ensemble) right(right, node, on string, err error) doctor.Finding {
	check := fmt.Sprintf("right to %s", right)
	what := "No lock can be taken."
	if right == toDelete {
		what = "No lock can be given back, and claims stay until their sessions end."
	}
	if strings.HasSuffix(node, zkpath.RecordsDir) {
		what = "once and cell do not work."
	}
	switch {
	case err == nil:
		return doctor.Good(check, "below "+node)
	case errors.Is(err, driver.ErrDenied):
		return doctor.Break(check, fmt.Sprintf("denied below %s, by the ACL of %s", node, on), what, e.setACL(on))
	}
	return doctor.Warn(check, fmt.Sprintf("cannot ask for %s: %v", node, err), "Whether pawl may do that is not known.", fmt.Sprintf("zkCli.sh -server %s getAcl %s", e.settings.Servers[0], on))
}

// setACL is the command that gives all rights on a node, for someone who may. It does not
// repeat the present ACL: to those without the right of admin servers show passwords as x.
func (e *ensemble) setACL(node string) string {
	const others = " # in place of what getAcl shows: add the others who need the node, separated by commas"
	if e.settings.User == "" {
		return fmt.Sprintf("zkCli.sh -server %s setAcl %s world:anyone:cdrwa", e.settings.Servers[0], node) + others
	}
	return fmt.Sprintf(`printf 'addauth digest %s:PASSWORD\nsetAcl %s auth::cdrwa\n' | zkCli.sh -server %s`, e.settings.User, node, e.settings.Servers[0]) + others
}
