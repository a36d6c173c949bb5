package zklock

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// dead returns an address without a listener.
func dead(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// mute returns the address of a server that takes connections and says nothing.
func mute(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

func TestAServerWithoutAPortIsAskedAt2181(t *testing.T) {
	t.Parallel()
	for _, hosts := range []string{"127.91.17.3", "127.91.17.3,127.91.17.3:2181", "[::ffff:127.91.17.3]"} {
		_, err := pawl.Open(t.Context(), "zk://"+hosts) // without a listener: nothing else uses these addresses
		if !errors.Is(err, driver.ErrUnreachable) || !strings.Contains(err.Error(), "127.91.17.3") || !strings.Contains(err.Error(), ":2181: ") {
			t.Errorf("%s: %v, not unreachable at port 2181", hosts, err)
		}
	}
}

func TestAWrongEndpointFailsByItself(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	_, err := Connect(context.Background(), []string{dead(t), dead(t)})
	if !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("%v, not ErrUnreachable", err)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("after %v", took)
	}
}

func TestAnEndpointThatSaysNothingFailsWithinTheCtx(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	begun := time.Now()
	_, err := Connect(ctx, []string{mute(t)})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, not the ctx's error", err)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("after %v", took)
	}
	_, err = Connect(context.Background(), []string{mute(t)}) // and without one too
	if !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("%v, not ErrUnreachable", err)
	}
}

func TestAHostThatHasNoAddressFailsByItself(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := Connect(ctx, []string{"no-such-host.invalid:2181"}); !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("%v, not ErrUnreachable", err)
	}
}

// One of the servers is enough.
func TestADeadServerAmongThreeDoesNoHarm(t *testing.T) {
	t.Parallel()
	for range 4 { // they are tried in any order
		e := connect(t, []string{dead(t), oneServer(t), dead(t)}, WithPath(pathOf(t)))
		hold(t, open(t, e, time.Minute), mutex())
	}
}

func TestAWrongPasswordIsDenied(t *testing.T) {
	t.Parallel()
	path := pathOf(t)
	addr := []string{oneServer(t)}
	e := connect(t, addr, WithPath(path), WithDigest("ana", "right"), WithCreatorOnly())
	s := open(t, e, time.Minute)
	hold(t, s, mutex())
	for name, opts := range map[string][]Option{
		"another password": {WithDigest("ana", "secret-wrong")},
		"another user":     {WithDigest("bob", "right")},
		"no user":          {},
	} {
		_, err := Connect(t.Context(), addr, append(opts, WithPath(path))...)
		if !errors.Is(err, driver.ErrDenied) {
			t.Errorf("%s: %v, not ErrDenied", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error shows the password: %v", name, err)
		}
	}
	same := connect(t, addr, WithPath(path), WithDigest("ana", "right"), WithCreatorOnly())
	if st := enter(t, open(t, same, time.Minute), tries(mutex())); st.Held || st.Holder == nil {
		t.Errorf("the same user: %+v", st)
	}
	// No other user sees what it created, at any depth.
	conn := raw(t)
	for _, p := range []string{e.root, e.lines, e.linePath("job")} {
		if _, _, err := conn.Children(p); !errors.Is(err, zk.ErrNoAuth) {
			t.Errorf("a stranger reads %s: %v", p, err)
		}
	}
}

func TestAPathWithoutPermissionIsDeniedAndLeftAlone(t *testing.T) {
	t.Parallel()
	conn := raw(t)
	path := "/" + encode(newID())
	if _, err := conn.Create(path, []byte("theirs"), 0, zk.WorldACL(zk.PermRead)); err != nil {
		t.Fatal(err)
	}
	_, err := Connect(t.Context(), []string{oneServer(t)}, WithPath(path+"/locks"))
	if !errors.Is(err, driver.ErrDenied) {
		t.Errorf("%v, not ErrDenied", err)
	}
	nodes, _, err := conn.Children(path)
	if err != nil || len(nodes) != 0 {
		t.Errorf("below the path: %v, %v", nodes, err)
	}
}

// The right to make claims is taken away from a running engine.
func TestALostRightIsDenied(t *testing.T) {
	t.Parallel()
	e, s, conn := usedLine(t)
	if _, err := conn.SetACL(e.linePath("job"), zk.WorldACL(zk.PermRead|zk.PermAdmin), -1); err != nil {
		t.Fatal(err)
	}
	for _, c := range []driver.Claim{mutex(), tries(mutex())} {
		if _, err := s.Enter(t.Context(), c); !errors.Is(err, driver.ErrDenied) {
			t.Errorf("Enter: %v, not ErrDenied", err)
		}
	}
	if err := s.Beat(t.Context(), nil, nil); err != nil {
		t.Errorf("Beat: %v; the session has lost nothing", err)
	}
	expectLine(t, e)
}

func TestAURLOpensAnEngine(t *testing.T) {
	t.Parallel()
	path := pathOf(t)
	for _, store := range []string{
		"zk://" + oneServer(t) + path + "?ttl=5s",
		"zk://" + dead(t) + "," + oneServer(t) + path + "/",
		"zk://ana:pa%20ss@" + oneServer(t) + path + "/creators?acl=creator",
		"zk://" + oneServer(t) + path + "?prefix=team%2Fa",
	} {
		c, err := pawl.Open(t.Context(), store)
		if err != nil {
			t.Errorf("%s: %v", store, err)
			continue
		}
		l, err := c.Mutex("job").TryLock(t.Context())
		if err != nil {
			t.Errorf("%s: %v", store, err)
		} else if err := l.Unlock(); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestPrefixesDoNotMeet(t *testing.T) {
	t.Parallel()
	path := pathOf(t)
	for _, prefix := range []string{"", "a", "b", "lines", "records", "desks", "a/b", "."} {
		e := connect(t, []string{oneServer(t)}, WithPath(path), WithPrefix(prefix))
		s := open(t, e, time.Minute)
		c := mutex()
		hold(t, s, c)
		expectLine(t, e, c)
	}
}

func TestABadURLIsRefusedWithoutItsPassword(t *testing.T) {
	t.Parallel()
	for store, want := range map[string]string{
		"zk://ana:secret@h1/p?timeout=3s":    "known: acl, prefix",
		"zk://ana:secret@h1/p?acl=everybody": "creator",
		"zk://h1/p?acl=creator":              "user",
		"zk://ana:secret@/p":                 "no host",
		"zk:/p":                              "no host",
		"zk://ana:secret@h1,,h2/p":           "one of the hosts is empty",
		"zk://ana:secret@h1:1:2,h2/p":        "not host:port",
		"zk://ana:secret@h1//p":              "empty part",
		"zk://ana:secret@h1/zookeeper/p":     "ZooKeeper's own",
		"zk://ana:secret@h1/p#x":             "%23",
		"zk://ana:secret@h1/..":              "dots",
	} {
		u, err := driver.ParseURL(store)
		if err == nil {
			_, err = openURL(t.Context(), u)
		}
		if !errors.Is(err, driver.ErrURL) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, not a bad URL with %q", store, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error shows the password: %v", store, err)
		}
	}
	_, err := pawl.Open(t.Context(), "zk://ana:secret@"+dead(t)+"/p")
	if !errors.Is(err, pawl.ErrUnreachable) || strings.Contains(err.Error(), "secret") {
		t.Errorf("a dead server: %v", err)
	}
}

func TestBadOptionsAreRefused(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]Option{
		"no path":               {WithPath("")},
		"relative":              {WithPath("a")},
		"the root":              {WithPath("/")},
		"a slash at the end":    {WithPath("/a/")},
		"a control character":   {WithPath("/a\x01b")},
		"an ACL without a user": {WithCreatorOnly()},
	} {
		if _, err := Connect(t.Context(), []string{oneServer(t)}, opts...); err == nil || errors.Is(err, driver.ErrUnreachable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Connect(t.Context(), nil); err == nil {
		t.Error("no servers are taken for some")
	}
	hook := NewHook()
	conn := user(t, oneServer(t), 10*time.Second, hook)
	if _, err := New(conn, hook, WithDigest("ana", "x")); err == nil {
		t.Error("a user is taken for a connection that is made already")
	}
}
