package planted

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultdial"
	"github.com/pawl-go/pawl/internal/history"
)

const (
	loadTTL     = time.Second
	loadClients = 4
	loadLanes   = 4
)

// A load is clients that use a few names through links that can fail, and the record of
// what they did.
type load struct {
	t      testing.TB
	server *Server
	begun  time.Time
	ctx    context.Context
	stop   context.CancelFunc
	lanes  sync.WaitGroup

	mu        sync.Mutex // guards what follows
	clients   []*loadClient
	h         history.History
	stopped   history.Time
	stalls    int
	stalled   time.Duration
	registers map[string]*register
}

// A loadClient stands for a process.
type loadClient struct {
	number int
	link   *faultdial.Link
	engine driver.Engine
	client *pawl.Client
	killed bool // its lanes do nothing more; guarded by load.mu
	long   int  // lanes that hold for long; guarded by load.mu
}

// A register refuses stale tokens, as a resource would.
type register struct {
	seq   int
	token uint64
}

func newLoad(t testing.TB, server *Server) *load {
	l := &load{t: t, server: server, begun: time.Now(), registers: map[string]*register{}}
	l.h.TTL = loadTTL
	l.ctx, l.stop = context.WithCancel(context.Background())
	for range loadClients {
		l.start()
	}
	l.lanes.Go(l.watchStalls)
	return l
}

// watchStalls records when the machine ran this process so slowly that a request which asks
// for nothing had no answer in time: then none of the clients could do much. A goroutine
// that only sleeps would not notice it, since each step of a request is late by less.
func (l *load) watchStalls() {
	const every = 5 * time.Millisecond
	tick := time.NewTicker(every)
	defer tick.Stop()
	conn := echo(l.t)
	defer conn.Close()
	for last := l.now(); l.ctx.Err() == nil; {
		<-tick.C
		if err := roundTrip(conn); err != nil {
			l.t.Error(err)
			return
		}
		now := l.now()
		if time.Duration(now-last) > 40*time.Millisecond {
			l.mu.Lock()
			l.stalls++
			l.stalled += time.Duration(now - last)
			for _, c := range l.clients {
				if !c.killed {
					l.h.Faults = append(l.h.Faults, history.Fault{Client: c.number, Kind: history.Stall, From: last, To: now})
				}
			}
			l.mu.Unlock()
		}
		last = now
	}
}

// echo connects to a server that sends back what it gets, until the connection is closed.
func echo(t testing.TB) net.Conn {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { // ends with the connection
		defer listener.Close()
		if conn, err := listener.Accept(); err == nil {
			defer conn.Close()
			_, _ = io.Copy(onlyWriter{conn}, conn)
		}
	}()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// An onlyWriter hides what else a connection can do, so that its bytes pass through this
// process.
type onlyWriter struct{ io.Writer }

func roundTrip(conn net.Conn) error {
	b := []byte{0}
	if _, err := conn.Write(b); err != nil {
		return err
	}
	_, err := conn.Read(b)
	return err
}

func (l *load) now() history.Time { return history.Time(time.Since(l.begun) + 1) }

// start starts another client and its lanes.
func (l *load) start() {
	c := &loadClient{link: faultdial.New()}
	c.engine = connect(l.t, l.server, c.link.Dial)
	c.client = pawl.New(&recorded{c.engine, l}, pawl.WithTTL(loadTTL), pawl.WithObserver(queueObserver{l}))
	l.mu.Lock()
	defer l.mu.Unlock()
	c.number = len(l.clients)
	l.clients = append(l.clients, c)
	for lane := range loadLanes {
		l.lanes.Go(func() { l.work(c, lane) })
	}
}

// A queueObserver records when an attempt waits, also behind another of its process.
type queueObserver struct{ *load }

type attemptKey struct{}

func (o queueObserver) Direct() {}

func (o queueObserver) Observe(e pawl.Event) {
	if e.Kind == pawl.Waiting {
		o.queued(e.Context)
	}
}

// queued records that the attempt of ctx is in line now, and does not count on an earlier
// place.
func (l *load) queued(ctx context.Context) {
	if i, ok := ctx.Value(attemptKey{}).(int); ok {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.h.Attempts[i].Queued = l.now()
	}
}

// A recorded engine records when a claim was entered. A client that was not served in time,
// because of a fault or a slow machine, has lost its place, and enters again.
type recorded struct {
	driver.Engine
	l *load
}

func (e *recorded) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	s, err := e.Engine.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return &recordedSession{s, e.l}, nil
}

type recordedSession struct {
	driver.Session
	l *load
}

func (s *recordedSession) Enter(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	st, err := s.Session.Enter(ctx, c)
	if err == nil && !st.Held && !st.Gone && c.Queue {
		s.l.queued(ctx)
	}
	return st, err
}

// A way is how a lane acquires.
type way struct {
	name        string
	need, limit int
	try, fair   bool
	acquire     func(ctx context.Context, c *pawl.Client) (*pawl.Lease, error)
}

// ways are the locks of the load: a mutex that is fair and one that is not, readers and
// writers, permits, and a name that is only tried, and so is free most of the time.
var ways = []way{
	{"fair", 1, 1, false, true, func(ctx context.Context, c *pawl.Client) (*pawl.Lease, error) {
		return c.Mutex("fair", pawl.WithFair()).Lock(ctx)
	}},
	{"plain", 1, 1, false, false, func(ctx context.Context, c *pawl.Client) (*pawl.Lease, error) {
		return c.Mutex("plain").Lock(ctx)
	}},
	{"plain", 1, 1, true, false, func(ctx context.Context, c *pawl.Client) (*pawl.Lease, error) {
		return c.Mutex("plain").TryLock(ctx)
	}},
	{"rw", 1, driver.All, false, true, func(ctx context.Context, c *pawl.Client) (*pawl.Lease, error) {
		return c.RWMutex("rw", pawl.WithFair()).RLock(ctx)
	}},
	{"rw", 1, driver.All, false, true, func(ctx context.Context, c *pawl.Client) (*pawl.Lease, error) {
		return c.RWMutex("rw", pawl.WithFair()).RLock(ctx)
	}},
	{"rw", driver.All, driver.All, false, true, func(ctx context.Context, c *pawl.Client) (*pawl.Lease, error) {
		return c.RWMutex("rw", pawl.WithFair()).Lock(ctx)
	}},
	{"permits", 1, 4, false, true, func(ctx context.Context, c *pawl.Client) (*pawl.Lease, error) {
		return c.Semaphore("permits", 4, pawl.WithFair()).Acquire(ctx, 1)
	}},
	{"permits", 2, 4, false, true, func(ctx context.Context, c *pawl.Client) (*pawl.Lease, error) {
		return c.Semaphore("permits", 4, pawl.WithFair()).Acquire(ctx, 2)
	}},
	{"tried", 1, 1, true, false, func(ctx context.Context, c *pawl.Client) (*pawl.Lease, error) {
		return c.Mutex("tried").TryLock(ctx)
	}},
}

// work is one lane: it acquires, works and unlocks until the load stops.
func (l *load) work(c *loadClient, lane int) {
	for l.ctx.Err() == nil && !l.isKilled(c) {
		w := ways[rand.IntN(len(ways))]
		i, lease := l.acquire(c, lane, w)
		if lease != nil {
			l.hold(c, i, lease)
		}
		time.Sleep(rand.N(5 * time.Millisecond))
	}
}

func (l *load) isKilled(c *loadClient) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return c.killed
}

// set changes an attempt, unless its process was killed meanwhile.
func (l *load) set(c *loadClient, i int, change func(a *history.Attempt)) (alive bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !c.killed {
		change(&l.h.Attempts[i])
	}
	return !c.killed
}

func (l *load) acquire(c *loadClient, lane int, w way) (int, *pawl.Lease) {
	a := history.Attempt{Client: c.number, Lane: lane, Name: w.name, Need: w.need, Limit: w.limit, Try: w.try, Fair: w.fair}
	l.mu.Lock()
	i := len(l.h.Attempts)
	a.Called = l.now()
	l.h.Attempts = append(l.h.Attempts, a)
	l.mu.Unlock()
	ctx, cancel := context.WithCancel(context.WithValue(l.ctx, attemptKey{}, i))
	defer cancel()
	if rand.IntN(10) == 0 { // a wait that is cancelled, some while the store is asked
		timer := time.AfterFunc(rand.N(loadTTL/4>>rand.IntN(8)), func() {
			l.set(c, i, func(a *history.Attempt) { a.Cancelled = l.now() })
			cancel()
		})
		defer timer.Stop()
	}
	lease, err := w.acquire(ctx, c.client)
	l.set(c, i, func(a *history.Attempt) {
		a.Returned = l.now()
		if l.ctx.Err() != nil && a.Cancelled == 0 {
			a.Cancelled = l.stopped
		}
		switch {
		case err == nil:
			a.Result, a.Token = history.Held, lease.Token()
		case errors.Is(err, pawl.ErrHeld):
			a.Result, a.Err = history.Busy, err.Error()
		default:
			a.Result, a.Err = history.Failed, err.Error()
		}
	})
	if err != nil {
		return i, nil
	}
	return i, lease
}

// hold works under a lease, most often for a moment, sometimes for longer than a TTL.
func (l *load) hold(c *loadClient, i int, lease *pawl.Lease) {
	work := rand.N(5 * time.Millisecond)
	if rand.IntN(40) == 0 {
		work = loadTTL + rand.N(2*loadTTL)
		l.set(c, i, func(*history.Attempt) { c.long++ })
		defer l.set(c, i, func(*history.Attempt) { c.long-- })
	}
	lost := false
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(work); time.Now().Before(end) && !lost && l.ctx.Err() == nil; {
		at := l.now()
		lost = lease.Err() != nil
		alive := l.set(c, i, func(a *history.Attempt) {
			if lost {
				a.Told, a.End = l.now(), history.Lost
			} else {
				a.Alive = at
			}
		})
		if !alive {
			return
		}
		if !lost {
			l.write(c, i)
		}
		select {
		case <-tick.C:
		case <-lease.Context().Done():
		}
	}
	if !l.set(c, i, func(a *history.Attempt) { a.Unlock = l.now() }) {
		return
	}
	err := lease.Unlock()
	l.set(c, i, func(a *history.Attempt) {
		a.Unlocked = l.now()
		switch {
		case a.End == history.Lost:
		case err == nil:
			a.End = history.Released
		case errors.Is(err, pawl.ErrLost):
			a.End, a.Told = history.Lost, a.Unlocked
		default:
			a.End = history.Unknown
		}
	})
}

// write writes to the register of the name, under a lease that excludes all others.
func (l *load) write(c *loadClient, i int) {
	l.set(c, i, func(a *history.Attempt) {
		if !a.Exclusive() || len(a.Writes) == 3 {
			return
		}
		r := l.registers[a.Name]
		if r == nil {
			r = &register{}
			l.registers[a.Name] = r
		}
		r.seq++
		w := history.Write{Seq: r.seq, At: l.now(), Accepted: a.Token >= r.token}
		r.token = max(r.token, a.Token)
		w.Answered = l.now()
		a.Writes = append(a.Writes, w)
	})
}

// finish stops the load and returns its history.
func (l *load) finish() *history.History {
	l.mu.Lock()
	l.stopped = l.now()
	l.mu.Unlock()
	l.stop()
	for _, c := range l.clients {
		c.link.Heal()
	}
	l.lanes.Wait()
	l.mu.Lock()
	l.h.End = l.now()
	l.mu.Unlock()
	for _, c := range l.clients {
		_ = c.client.Close() // a bug may have ended what it gives back
		_ = c.engine.Close()
	}
	return &l.h
}
