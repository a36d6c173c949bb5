package dialtest_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
)

// A dialledStore is a store whose URL has addresses that only a test's dialer knows.
type dialledStore struct {
	url    string
	routes map[string]string // from an address of the URL to the true one
	known  []string          // addresses that the store itself announces
}

// behind returns a store on servers. In pattern, $ stands for the list of names that the
// servers get, none of which any resolver knows.
func behind(pattern string, addrs []string, announced ...string) dialledStore {
	s := dialledStore{routes: map[string]string{}, known: announced}
	var names []string
	for i, addr := range addrs {
		name := fmt.Sprintf("h%d.invalid:%d", i+1, i+1)
		s.routes[name] = addr
		names = append(names, name)
	}
	s.url = strings.Replace(pattern, "$", strings.Join(names, ","), 1)
	return s
}

// dialledStores start the stores of each kind.
var dialledStores = map[string]func(t *testing.T) dialledStore{
	"Redis":  func(t *testing.T) dialledStore { return behind("redis://$", addrsOf(testserver.Redis(t))) },
	"Valkey": func(t *testing.T) dialledStore { return behind("redis://$", addrsOf(testserver.Valkey(t))) },
	"Redis with TLS": func(t *testing.T) dialledStore {
		cert, key := testserver.Certificate(t, t.TempDir(), "server", "127.0.0.1")
		port := strconv.Itoa(testserver.FreePort(t))
		testserver.Redis(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert, "--tls-auth-clients", "optional")
		return behind("rediss://$?tls-name=127.0.0.1&tls-ca="+url.QueryEscape(cert), []string{"127.0.0.1:" + port})
	},
	"Sentinel": func(t *testing.T) dialledStore {
		s := testserver.RedisSentinel(t)
		return behind("redis-sentinel://$/"+testserver.SentinelName, s.Addrs(), append(addrsOf(s.Nodes...), s.Addrs()...)...)
	},
	"Cluster": func(t *testing.T) dialledStore {
		addrs := testserver.RedisCluster(t).Addrs()
		return behind("redis-cluster://$", addrs, addrs...)
	},
	"Redlock": func(t *testing.T) dialledStore {
		return behind("redlock://$?max-ttl=10s", addrsOf(testserver.Redis(t), testserver.Redis(t), testserver.Redis(t)))
	},
	"etcd": func(t *testing.T) dialledStore { return behind("etcd://$", testserver.NewEtcds(t, 3, nil).Addrs()) },
	"NATS": func(t *testing.T) dialledStore {
		addrs := testserver.NATSServers(t, 3, nil).Addrs()
		return behind("nats://$?replicas=3", addrs, addrs...)
	},
	"NATS with TLS": func(t *testing.T) dialledStore {
		cert, key := testserver.Certificate(t, t.TempDir(), "server", "127.0.0.1")
		s := testserver.NATS(t, fmt.Sprintf("tls { cert_file: %q, key_file: %q }", cert, key))
		return behind("nats://$?tls=yes&tls-name=127.0.0.1&tls-ca="+url.QueryEscape(cert), addrsOf(s))
	},
	"ZooKeeper": func(t *testing.T) dialledStore { return behind("zk://$", testserver.ZooKeepers(t, 3, nil).Addrs()) },
	"PostgreSQL": func(t *testing.T) dialledStore {
		addrs := addrsOf(testserver.PostgreSQL(t))
		return migrated(t, behind("postgres://postgres@$/postgres?sslmode=disable", addrs, addrs...)) // pgx cancels by the address of a connection
	},
	"MariaDB": func(t *testing.T) dialledStore {
		return migrated(t, behind("mysql://root@$/mysql", addrsOf(testserver.MariaDB(t))))
	},
	"MySQL": func(t *testing.T) dialledStore {
		return migrated(t, behind("mysql://root@$/mysql", addrsOf(testserver.MySQL(t))))
	},
	"PostgreSQL by socket": func(t *testing.T) dialledStore {
		dir, err := os.MkdirTemp("", "pg") // of t.TempDir, the path may be too long for a socket
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		if err := os.Chmod(dir, 0o777); err != nil { // the server has a user of its own
			t.Fatal(err)
		}
		s := testserver.PostgreSQL(t, "-c", "unix_socket_directories="+dir)
		return migrated(t, dialledStore{
			url:    fmt.Sprintf("postgres://postgres@/postgres?sslmode=disable&host=/nowhere&port=%d", s.Port()),
			routes: map[string]string{fmt.Sprintf("/nowhere/.s.PGSQL.%d", s.Port()): fmt.Sprintf("%s/.s.PGSQL.%d", dir, s.Port())},
		})
	},
	"MariaDB by socket": func(t *testing.T) dialledStore {
		s := testserver.MariaDB(t)
		return migrated(t, dialledStore{
			url:    "mysql://root@/mysql?socket=/nowhere/socket",
			routes: map[string]string{"/nowhere/socket": filepath.Join(s.Dir(), "socket")},
		})
	},
}

func addrsOf(servers ...*testserver.Server) (addrs []string) {
	for _, s := range servers {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// migrated makes the tables of a store, also by a dialer.
func migrated(t *testing.T, s dialledStore) dialledStore {
	t.Helper()
	c := newTestDialer(t, s).open(t)
	if err := c.Engine().(interface{ Migrate(context.Context) error }).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return s
}

// A testDialer knows the servers of one store, records connections and can break all.
type testDialer struct {
	t     *testing.T
	store dialledStore

	mu     sync.Mutex // guards what follows
	broken bool
	conns  map[net.Conn]bool
	calls  map[string]int // by address
	locals map[int]bool   // ports of this process that connections were made from
}

func newTestDialer(t *testing.T, s dialledStore) *testDialer {
	return &testDialer{t: t, store: s, conns: map[net.Conn]bool{}, calls: map[string]int{}, locals: map[int]bool{}}
}

var errBroken = errors.New("the test's network is broken")

func (d *testDialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock() // also while it connects, so that breaking misses none
	d.calls[address]++
	to, found := d.store.routes[address]
	for _, known := range d.store.known {
		if address == known {
			to, found = address, true
		}
	}
	switch {
	case !found:
		d.t.Errorf("dialled %s %s, which is none of the store's", network, address)
		return nil, errBroken
	case d.broken:
		return nil, errBroken
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, to)
	if err != nil {
		return nil, err
	}
	d.conns[conn] = true
	if local, ok := conn.LocalAddr().(*net.TCPAddr); ok {
		d.locals[local.Port] = true
	}
	return conn, nil
}

// breakAll closes all connections and refuses new ones until mend.
func (d *testDialer) breakAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.broken = true
	for conn := range d.conns {
		conn.Close()
	}
	clear(d.conns)
}

func (d *testDialer) mend() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.broken = false
}

func (d *testDialer) open(t *testing.T, opts ...pawl.Option) *pawl.Client {
	t.Helper()
	opening, cancel := context.WithTimeout(t.Context(), time.Minute) // the engine outlives it
	defer cancel()
	c, err := pawl.Open(driver.WithDialer(opening, d.dial), d.store.url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// ports returns the ports of the servers.
func (d *testDialer) ports() (all []int) {
	for _, addr := range d.store.routes {
		all = append(all, portOf(addr))
	}
	for _, addr := range d.store.known {
		all = append(all, portOf(addr))
	}
	return all
}

// portOf returns 0 for a path.
func portOf(addr string) int {
	_, port, _ := net.SplitHostPort(addr)
	n, _ := strconv.Atoi(port)
	return n
}

// fewAtATime bounds how many stores run beside each other: their servers are large.
var fewAtATime = make(chan struct{}, 3)

func TestEveryConnectionIsMadeByTheDialerOfTheContext(t *testing.T) {
	t.Parallel()
	for name, start := range dialledStores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fewAtATime <- struct{}{}
			defer func() { <-fewAtATime }()
			s := start(t)
			d := newTestDialer(t, s)
			before := connectionsTo(t, d.ports())
			passOn(t, d)
			examine(t, d)
			d.expectAll(t, before)
			expectNothingPast(t, d, before)
		})
	}
}

// passOn makes one client wait for another's lock.
func passOn(t *testing.T, d *testDialer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // a new Redlock votes late
	defer cancel()
	waits := make(chan struct{}, 1)
	observer := pawl.ObserverFunc(func(e pawl.Event) {
		if e.Kind == pawl.Waiting {
			select {
			case waits <- struct{}{}:
			default:
			}
		}
	})
	ana, bob := d.open(t, pawl.WithTTL(10*time.Second)), d.open(t, pawl.WithTTL(10*time.Second), pawl.WithObserver(observer))
	held, err := ana.Mutex("job").Lock(ctx)
	for errors.Is(err, pawl.ErrUnreachable) && ctx.Err() == nil { // nodes of a Redlock that do not vote yet
		held, err = ana.Mutex("job").Lock(ctx)
	}
	held = taken(t, held, err)
	type result struct {
		l   *pawl.Lease
		err error
	}
	got := make(chan result, 1)
	go func() { // ends with ctx
		l, err := bob.Mutex("job").Lock(ctx)
		got <- result{l, err}
	}()
	select {
	case <-waits:
	case r := <-got:
		t.Fatalf("it did not wait: %v", r.err)
	}
	if err := held.Unlock(); err != nil {
		t.Fatal(err)
	}
	r := <-got
	if err := taken(t, r.l, r.err).Unlock(); err != nil {
		t.Fatal(err)
	}
}

// expectAll checks that every connection of this process to the servers is one of the
// dialer's.
func (d *testDialer) expectAll(t *testing.T, before map[string]int) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.calls) == 0 {
		t.Error("the dialer was not asked")
	}
	t.Logf("dialled %v", d.calls)
	for inode, port := range connectionsTo(t, d.ports()) {
		if _, old := before[inode]; !old && !d.locals[port] {
			t.Errorf("a connection from port %d was not made by the dialer", port)
		}
	}
}

// expectNothingPast checks that nothing reaches the store while the dialer's network is
// broken, and that all works again afterwards.
func expectNothingPast(t *testing.T, d *testDialer, before map[string]int) {
	t.Helper()
	c := d.open(t, pawl.WithTTL(10*time.Second))
	l, err := c.Mutex("first").Lock(t.Context())
	if err := taken(t, l, err).Unlock(); err != nil {
		t.Fatal(err)
	}
	d.breakAll()
	short, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if l, err := c.Mutex("second").Lock(short); err == nil {
		t.Errorf("locked with token %d past the dialer", l.Token())
	}
	for inode, port := range connectionsTo(t, d.ports()) {
		if _, old := before[inode]; !old {
			t.Errorf("there is a connection from port %d past the dialer", port)
		}
	}
	d.mend()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	l, err = c.Mutex("third").Lock(ctx)
	if err := taken(t, l, err).Unlock(); err != nil {
		t.Error(err)
	}
}

func TestStoresWithoutANetworkIgnoreADialer(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"mem:", "sqlite://" + filepath.Join(t.TempDir(), "locks.db")} {
		l, err := newTestDialer(t, dialledStore{url: url}).open(t).Mutex("a").Lock(t.Context())
		if err := taken(t, l, err).Unlock(); err != nil {
			t.Error(err)
		}
	}
}
