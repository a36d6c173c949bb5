package postgres

import (
	"context"
	"crypto/rand"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/stalltest"
)

// handoff has from's holder give back a name for which to's client waits, and returns
// how long it takes until the waiter has it.
func handoff(t *testing.T, from, to *pawl.Client, name string, before, after func()) time.Duration {
	t.Helper()
	first, err := from.Mutex(name).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan time.Time, 1)
	go func() {
		l, err := to.Mutex(name).Lock(t.Context())
		at := time.Now()
		if err == nil {
			err = l.Unlock()
		}
		if err != nil {
			t.Error(err)
		}
		got <- at
	}()
	awaitLine(t, from, name, 2)
	before()
	released := time.Now()
	if err := first.Unlock(); err != nil {
		t.Error(err)
	}
	at := <-got
	after()
	return at.Sub(released)
}

// awaitLine waits until so many are in line for a name.
func awaitLine(t *testing.T, c *pawl.Client, name string, want int) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		n := 0
		for _, err := range c.List(t.Context(), name) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d in line, not %d", n, want)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// The user's work has all connections of the releaser's pool, and more of it waits for
// each: what gives the lock back gets one in its turn, and the next is told all the
// same.
func TestTheNextWaiterIsNotifiedThoughTheReleasersPoolIsBusy(t *testing.T) {
	t.Parallel()
	serverPool(t)
	const ttl = time.Minute
	pool, err := pgxpool.New(t.Context(), urlOf(shared.server.Addr())+"&pool_max_conns=2")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	e, err := New(pool)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	a := pawl.New(e, pawl.WithTTL(ttl))
	t.Cleanup(func() { a.Close() })
	b := openClient(t, urlOf(shared.server.Addr()), pawl.WithTTL(ttl))
	stalltest.Within(t, ttl/10, "the next has it", func() time.Duration {
		ctx, cancel := context.WithCancel(t.Context())
		var work sync.WaitGroup
		return handoff(t, a, b, t.Name(), func() {
			for range 8 {
				work.Go(func() { // ends with ctx; awaited below
					for ctx.Err() == nil {
						_, _ = pool.Exec(ctx, "SELECT pg_sleep(0.4)")
					}
				})
			}
			for pool.Stat().AcquiredConns() < 2 {
				time.Sleep(time.Millisecond)
			}
		}, func() { cancel(); work.Wait() })
	})
}

// deaf is a source whose connections lead to the server, but for the one that listens.
type deaf struct {
	source
	addr string
}

func (d *deaf) config(ctx context.Context) (*pgx.ConnConfig, error) {
	cfg, err := d.source.config(ctx)
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(d.addr)
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	cfg.Host, cfg.Port = host, uint16(n)
	return cfg, err
}

// The connection that listens dies without a word. One turn may be found as late as by
// a beat; from then on it is known, and turns are notified again.
func TestAListenerThatDiedSilentlyIsReplaced(t *testing.T) {
	t.Parallel()
	serverPool(t)
	const ttl = 24 * time.Second
	store := urlOf(shared.server.Addr())
	p := faultproxy.New(t, shared.server.Addr())
	e := openStore(t, store)
	e.store.beats = &deaf{e.store.beats, p.Addr()}
	a, b := openClient(t, store, pawl.WithTTL(ttl)), pawl.New(e, pawl.WithTTL(ttl))
	t.Cleanup(func() { b.Close() })
	nothing := func() {}
	for range 2 { // LISTEN is known to work
		handoff(t, a, b, t.Name(), nothing, nothing)
	}
	// A connection that does not answer a probe in time is given up, so where the machine
	// stood still the next may be found dead as well, and a later turn be found by a beat.
	stood := stalltest.Start()
	defer stood.End()
	notified := func() {
		t.Helper()
		for n := 1; ; n++ {
			took := handoff(t, a, b, t.Name(), nothing, nothing)
			if took <= ttl/8 {
				return
			}
			if lost := stood.Lost(); lost < pingTimeout/4 || n == 6 {
				t.Fatalf("the next has it after %v, the %d. time; the machine stood still for %v since the connection died", took, n, lost)
			}
		}
	}
	p.BlackHole(faultproxy.Both)
	handoff(t, a, b, t.Name(), nothing, nothing)
	for range 3 {
		notified()
	}
	p.Heal()
	notified()
}

// A release does not wait long for its notice to go out. On a link, or a
// machine, on which that takes longer, it goes out all the same.
func TestTheNextWaiterIsNotifiedThoughTheNoticeTakesLong(t *testing.T) {
	t.Parallel()
	serverPool(t)
	const ttl = time.Minute
	proxy := faultproxy.New(t, shared.server.Addr())
	from, to := openClient(t, urlOf(proxy.Addr()), pawl.WithTTL(ttl)), openClient(t, urlOf(shared.server.Addr()), pawl.WithTTL(ttl))
	took := handoff(t, from, to, t.Name(), func() { proxy.Delay(faultproxy.ToServer, 400*time.Millisecond) }, proxy.Heal)
	t.Logf("a handoff took %v", took)
	if took > ttl/6 { // a beat would find it after a third of the TTL
		t.Errorf("a handoff took %v", took)
	}
}

// heard listens on channels by a connection of its own, and returns what came there once
// it is called: all that was sent before.
func heard(t *testing.T, channels ...string) func() (texts []string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), urlOf(shared.server.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeConn(c) })
	send := func(text string, args ...any) {
		if _, err := c.Exec(t.Context(), text, args...); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range channels {
		send("LISTEN " + name)
	}
	return func() (texts []string) {
		end := rand.Text()
		send("SELECT pg_notify($1, $2)", channels[0], end)
		for {
			n, err := c.WaitForNotification(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if n.Payload == end {
				return texts
			}
			texts = append(texts, n.Payload)
		}
	}
}

// notified is a client that waits for notices, whose engine has tables of its own, and
// another client of the same tables.
func notified(t *testing.T, tables string) (e *Engine, from, to *pawl.Client) {
	t.Helper()
	serverPool(t)
	const ttl = time.Minute
	store := urlOf(shared.server.Addr()) + "&table_prefix=" + tables
	e = openStore(t, store)
	if err := e.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	from, to = openClient(t, store, pawl.WithTTL(ttl)), pawl.New(e, pawl.WithTTL(ttl))
	t.Cleanup(func() { to.Close() })
	// It polls until it has seen that a notice of its own arrives.
	own := heard(t, e.store.tables.inbox(e.store.owner))
	nothing := func() {}
	for begun := time.Now(); len(own()) == 0; {
		if time.Since(begun) > ttl {
			t.Fatal("no notice was tried")
		}
		handoff(t, from, to, t.Name(), nothing, nothing)
	}
	for range 3 {
		handoff(t, from, to, t.Name(), nothing, nothing)
	}
	return e, from, to
}

// Others that wait are not woken by a notice, neither those for this name nor for others.
func TestANoticeGoesToTheWaitersProcessAlone(t *testing.T) {
	t.Parallel()
	e, from, to := notified(t, "alone_")
	all, own := heard(t, e.store.tables.inbox("")), heard(t, e.store.tables.inbox(e.store.owner))
	nothing := func() {}
	for range 5 {
		handoff(t, from, to, t.Name(), nothing, nothing)
	}
	// Who looks between a release and the next grant grants it, and needs no notice.
	if len(own()) == 0 {
		t.Error("no notice to the process that waited")
	}
	if texts := all(); len(texts) > 0 {
		t.Errorf("all that wait were sent %q", texts)
	}
}

// A program of an earlier version does not name its process, and is notified as all are.
func TestAWaiterWhoseProcessIsNotKnownIsNotified(t *testing.T) {
	t.Parallel()
	e, from, to := notified(t, "unknown_")
	all := heard(t, e.store.tables.inbox(""))
	const ttl = time.Minute
	stalltest.Within(t, ttl/10, "the next has it", func() time.Duration {
		return handoff(t, from, to, t.Name(), func() {
			if _, err := shared.pool.Exec(t.Context(), "UPDATE unknown_claim SET live = ''"); err != nil {
				t.Error(err)
			}
		}, func() {})
	})
	if len(all()) == 0 {
		t.Error("no notice to all")
	}
}
