package zklock

import (
	"context"
	"fmt"
	"iter"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/drivertest"
	"github.com/pawl-go/pawl/zklock/internal/zkstore"
)

// TestSoakLawsOnOneNode runs the suite again and again for as long as PAWL_SOAK says.
// Without it, one node is for the user's connections, and our own are to three.
func TestSoakLawsOnOneNode(t *testing.T) {
	d, err := time.ParseDuration(os.Getenv("PAWL_SOAK"))
	if err != nil {
		t.Skip("PAWL_SOAK is not set")
	}
	rounds := 0
	for begun := time.Now(); time.Since(begun) < d && !t.Failed(); rounds++ {
		t.Run(fmt.Sprint("round ", rounds), func(t *testing.T) { lawsOn(t, []string{oneServer(t)}) })
	}
	t.Logf("%d rounds", rounds)
}

func TestLawsOnThreeNodes(t *testing.T) {
	t.Parallel()
	lawsOn(t, threeServers(t))
}

func lawsOn(t *testing.T, servers []string) {
	drivertest.Run(t, drivertest.Harness{
		Open: func(t *testing.T) driver.Engine { return connect(t, servers, WithPath(pathOf(t))) },
		Peer: func(t *testing.T, e driver.Engine) driver.Engine {
			return connect(t, servers, WithPath(e.(*Engine).path))
		},
		Crash:  func(s driver.Session) { s.(*session).conn.Kill() },
		Clean:  func(t *testing.T, e driver.Engine) error { return e.(*Engine).clean(t) },
		MinTTL: 2 * time.Second,
	})
}

// TestLawsOnAConnectionOfTheUsers runs on two connections of each engine, since
// all sessions of one have the same TTL.
func TestLawsOnAConnectionOfTheUsers(t *testing.T) {
	t.Parallel()
	addr := oneServer(t)
	drivertest.Run(t, drivertest.Harness{
		Open:   func(t *testing.T) driver.Engine { return pair(t, addr, pathOf(t)) },
		Peer:   func(t *testing.T, e driver.Engine) driver.Engine { return pair(t, addr, e.(*twoConns).path) },
		Clean:  func(t *testing.T, e driver.Engine) error { return e.(*twoConns).Engine.clean(t) },
		MinTTL: briefly,
		Stays:  func(stack string) bool { return strings.Contains(stack, "go-zookeeper/zk.") },
	})
}

// twoConns is an engine on two connections of a user's, one with a short timeout
// and one with a long.
type twoConns struct {
	*Engine
	brief *Engine
}

const briefly = 2 * time.Second

func pair(t *testing.T, addr, path string) *twoConns {
	return &twoConns{on(t, addr, 3*time.Minute, WithPath(path)), on(t, addr, zkstore.TimeoutFor(briefly), WithPath(path))}
}

func (p *twoConns) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	if o.TTL <= briefly {
		return p.brief.Open(ctx, o)
	}
	return p.Engine.Open(ctx, o)
}

func (p *twoConns) List(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error] {
	return p.Engine.List(ctx, prefix)
}

func (p *twoConns) Close() error {
	if err := p.brief.Close(); err != nil {
		return err
	}
	return p.Engine.Close()
}

// on returns an engine on a connection of the test's own.
func on(t testing.TB, addr string, timeout time.Duration, opts ...Option) *Engine {
	t.Helper()
	hook := NewHook()
	conn, _, err := zk.Connect([]string{addr}, timeout, zk.WithLogInfo(false), zk.WithLogger(quiet{}), hook.Option)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	e, err := New(conn, hook, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// pathOf is a path that no other test uses.
func pathOf(t testing.TB) string {
	return fmt.Sprintf("/test-%x", time.Now().UnixNano()) + "/" + encode(t.Name())
}

func connect(t testing.TB, servers []string, opts ...Option) *Engine {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	e, err := Connect(ctx, servers, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return e
}

// clean reports what is left beside empty containers, which the servers remove,
// and the nodes that all names share.
func (e *Engine) clean(t testing.TB) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := e.barrier(ctx, e.main); err != nil {
		return err
	}
	for {
		left, err := e.left(ctx)
		if left == "" || !strings.HasPrefix(left, e.evictions+"/") || ctx.Err() != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond) // a session that ended by itself removes its evict node last
	}
}

// left returns a node that should not be there, if there is one, and says what it is.
func (e *Engine) left(ctx context.Context) (path string, err error) {
	all, err := e.tree(ctx, e.root)
	if err != nil {
		return "", err
	}
	for path, stat := range all {
		switch {
		case path == e.root, path == e.lines, path == e.records, path == e.evictions, path == e.ends, path == e.walked:
		case strings.HasPrefix(path, e.ends+"/") && !strings.Contains(base(path), "@"): // a bucket
		case stat.NumChildren == 0 && strings.HasPrefix(path, e.lines+"/"): // that it is a container is another test's business
		default:
			return path, fmt.Errorf("%s is left: %+v", path, *stat)
		}
	}
	return "", nil
}

// tree returns a node and all below it.
func (e *Engine) tree(ctx context.Context, path string) (map[string]*zk.Stat, error) {
	all := map[string]*zk.Stat{}
	var nodes []string
	var stat *zk.Stat
	err := e.main.Call(ctx, func(c *zk.Conn) (err error) {
		nodes, stat, err = c.Children(path)
		return err
	})
	if err == zk.ErrNoNode {
		return all, nil
	}
	if err != nil {
		return nil, err
	}
	all[path] = stat
	for _, node := range nodes {
		below, err := e.tree(ctx, path+"/"+node)
		if err != nil {
			return nil, err
		}
		for p, s := range below {
			all[p] = s
		}
	}
	return all, nil
}
