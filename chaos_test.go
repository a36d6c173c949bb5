package pawl

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// What follows plays random faults on many clients of one store in a bubble:
// requests and replies that are lost, late or delivered twice, black holes that
// heal, sessions that end, contexts that are cancelled, clients that are closed.
// A judge that knows nothing of the core looks for overlap, tokens that go back,
// contexts that end late, waits without end and anything left behind.

// chaos is one process's way to the store.
type chaos struct {
	driver.Engine
	mu      sync.Mutex
	rnd     *rand.Rand
	level   float64 // probability of a fault
	hole    bool
	queue   bool
	valid0  bool
	sticky  bool
	expires bool
	ttl     time.Duration
}

func (x *chaos) Features() driver.Features {
	f := x.Engine.Features()
	f.Queue, f.BySession = x.queue, x.sticky
	return f
}
func (x *chaos) f() float64             { x.mu.Lock(); defer x.mu.Unlock(); return x.rnd.Float64() }
func (x *chaos) n(n int) int            { x.mu.Lock(); defer x.mu.Unlock(); return x.rnd.Intn(n) }
func (x *chaos) set(l float64, h bool)  { x.mu.Lock(); defer x.mu.Unlock(); x.level, x.hole = l, h }
func (x *chaos) state() (float64, bool) { x.mu.Lock(); defer x.mu.Unlock(); return x.level, x.hole }
func (x *chaos) d(max time.Duration) time.Duration {
	return time.Duration(x.n(int(max)))
}

type chaosSession struct {
	driver.Session
	x     *chaos
	id    string
	mu    sync.Mutex
	in    map[string]driver.Claim
	until time.Time
}

// alive ends a session that was not prolonged for its TTL, as etcd does.
func (s *chaosSession) alive(prolong bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.x.expires && now.After(s.until) {
		s.Session.Close(context.Background())
		return false
	}
	if prolong {
		s.until = now.Add(s.TTL())
	}
	return true
}

func (x *chaos) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	var s driver.Session
	err := x.do(ctx, nil, func(ctx context.Context) error {
		d, err := x.Engine.Open(ctx, o)
		if err == nil {
			s = &chaosSession{Session: d, x: x, id: o.ID, in: map[string]driver.Claim{}, until: time.Now().Add(o.TTL)}
		}
		return err
	}, false)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// do makes a call with faults; late calls may land after the caller gave up.
func (x *chaos) do(ctx context.Context, s *chaosSession, call func(context.Context) error, late bool) error {
	level, hole := x.state()
	hang := func() error { <-ctx.Done(); return ctx.Err() }
	if hole {
		if late && x.f() < 0.2 {
			time.AfterFunc(x.d(x.ttl), func() { call(context.Background()) })
		}
		return hang()
	}
	sleep := func(d time.Duration) error {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if x.f() < 0.5 {
		if err := sleep(x.d(3 * time.Millisecond)); err != nil {
			return err
		}
	}
	if x.f() >= level {
		return call(ctx)
	}
	switch x.n(8) {
	case 0: // not carried out
		return driver.ErrUnreachable
	case 1: // carried out, the reply is lost
		call(ctx)
		return driver.ErrUnreachable
	case 2: // carried out, the reply never comes
		call(ctx)
		return hang()
	case 3:
		return hang()
	case 4: // carried out late
		if late {
			time.AfterFunc(x.d(x.ttl*9/10), func() { call(context.Background()) })
		}
		return driver.ErrUnreachable
	case 5: // slow
		if err := sleep(x.d(x.ttl)); err != nil {
			return err
		}
		return call(ctx)
	case 6: // slow reply
		err := call(ctx)
		if serr := sleep(x.d(x.ttl)); serr != nil {
			return serr
		}
		return err
	default:
		return call(ctx)
	}
}

func (s *chaosSession) Enter(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	var mu sync.Mutex
	var st driver.Standing
	err := s.x.do(ctx, s, func(ctx context.Context) error {
		if !s.alive(!s.x.valid0) {
			return driver.ErrGone
		}
		got, err := s.Session.Enter(ctx, c)
		mu.Lock()
		st = got
		mu.Unlock()
		if err == nil && (got.Held || c.Queue) {
			s.mu.Lock()
			s.in[c.ID] = c
			s.mu.Unlock()
		}
		return err
	}, true)
	if err != nil {
		return driver.Standing{}, err
	}
	mu.Lock()
	defer mu.Unlock()
	if s.x.valid0 {
		st.Valid = 0
	}
	return st, nil
}

func (s *chaosSession) EnterAll(ctx context.Context, cs []driver.Claim) ([]driver.Standing, error) {
	cs = append([]driver.Claim(nil), cs...)
	var mu sync.Mutex
	var st []driver.Standing
	err := s.x.do(ctx, s, func(ctx context.Context) error {
		if !s.alive(!s.x.valid0) {
			return driver.ErrGone
		}
		got, err := s.Session.(driver.Multi).EnterAll(ctx, cs)
		mu.Lock()
		st = got
		mu.Unlock()
		return err
	}, false)
	if err != nil {
		return nil, err
	}
	mu.Lock()
	defer mu.Unlock()
	if s.x.valid0 {
		for i := range st {
			st[i].Valid = 0
		}
	}
	return st, nil
}

func (s *chaosSession) Close(ctx context.Context) error {
	return s.Session.Close(ctx)
}

func (s *chaosSession) Leave(ctx context.Context, c driver.Claim) error {
	return s.x.do(ctx, s, func(ctx context.Context) error {
		err := s.Session.Leave(ctx, c)
		if err == nil {
			s.mu.Lock()
			delete(s.in, c.ID)
			s.mu.Unlock()
		}
		return err
	}, true)
}

func (s *chaosSession) Beat(ctx context.Context, live []driver.Claim, out []driver.Standing) error {
	cp := append([]driver.Claim(nil), live...)
	var mu sync.Mutex
	var got []driver.Standing
	err := s.x.do(ctx, s, func(ctx context.Context) error {
		if !s.alive(true) {
			return driver.ErrGone
		}
		o := make([]driver.Standing, len(cp))
		err := s.Session.Beat(ctx, cp, o)
		if err == nil && s.x.sticky {
			s.mu.Lock()
			var rest []driver.Claim
			for _, c := range s.in {
				rest = append(rest, c)
			}
			s.mu.Unlock()
			s.Session.Beat(ctx, rest, make([]driver.Standing, len(rest)))
		}
		mu.Lock()
		got = o
		mu.Unlock()
		return err
	}, true)
	if err == nil {
		mu.Lock()
		copy(out, got)
		mu.Unlock()
		if l, _ := s.x.state(); l > 0 && len(out) > 0 && s.x.f() < 0.1 {
			out[s.x.n(len(out))] = driver.Standing{} // not learnt
		}
	}
	return err
}

func (s *chaosSession) Await(ctx context.Context, c driver.Claim, last driver.Standing) (driver.Standing, error) {
	if !s.x.queue {
		t := time.NewTimer(time.Millisecond + s.x.d(50*time.Millisecond))
		defer t.Stop()
		select {
		case <-t.C:
			return driver.Standing{}, nil
		case <-ctx.Done():
			return driver.Standing{}, ctx.Err()
		}
	}
	if l, hole := s.x.state(); hole {
		<-ctx.Done()
		return driver.Standing{}, ctx.Err()
	} else if s.x.f() < l/3 {
		if err := s.x.do(ctx, s, func(context.Context) error { return nil }, false); err != nil {
			return driver.Standing{}, err
		}
	}
	return s.Session.Await(ctx, c, last)
}

// judge watches the leases of one name.
type judge struct {
	t    *testing.T
	mu   sync.Mutex
	held map[string]map[*Lease]int // name -> lease -> need of 10
	last map[string]uint64
	ttl  time.Duration
	n    int
	wg   sync.WaitGroup
	lost int
}

const units = 10

func (j *judge) took(l *Lease, name string, need int, nested bool, margin time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if l.Err() != nil {
		return
	}
	j.n++
	if j.held[name] == nil {
		j.held[name] = map[*Lease]int{}
	}
	if !nested {
		sum := need
		for o, n := range j.held[name] {
			if o.Err() == nil && o.Token() != l.Token() {
				sum += n
			}
		}
		if sum > units {
			j.t.Errorf("%v: overlap on %s: %d units", time.Now(), name, sum)
			for o, n := range j.held[name] {
				j.t.Errorf("   %d: token %d fence %d id %s err %v deadline %v", n, o.Token(), o.Fence(), o.ID(), o.Err(), o.Deadline())
			}
			j.t.Errorf("  new %d: token %d fence %d id %s deadline %v", need, l.Token(), l.Fence(), l.ID(), l.Deadline())
		}
		if need == units {
			if tok := l.Token(); tok < j.last[name] {
				j.t.Errorf("token %d after %d", tok, j.last[name])
			}
		}
		j.last[name] = max(j.last[name], l.Token())
		j.held[name][l] = need
	}
	go func() {
		<-l.Context().Done()
		cause := context.Cause(l.Context())
		if errors.Is(cause, ErrLost) {
			if late := time.Since(l.Deadline()); late > min(margin, maxTick)+time.Millisecond {
				j.t.Errorf("context ended %v after the deadline: %v", late, cause)
			}
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		delete(j.held[name], l)
	}()
}

func stress(t *testing.T, seed int64) {
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewSource(seed))
		ttl := []time.Duration{100 * time.Millisecond, time.Second, 10 * time.Second}[rnd.Intn(3)]
		margin := min(ttl/10, 500*time.Millisecond)
		mem := memlock.New()
		j := &judge{t: t, held: map[string]map[*Lease]int{}, last: map[string]uint64{}, ttl: ttl}
		queue, valid0, sticky, expires := rnd.Intn(4) > 0, rnd.Intn(4) == 0, rnd.Intn(2) == 0, rnd.Intn(2) == 0
		var procs []*chaos
		var recs []*pairs
		var dirs []*directPairs
		var clients []*Client
		for i := range 2 + rnd.Intn(3) {
			x := &chaos{Engine: mem, rnd: rand.New(rand.NewSource(seed*100 + int64(i))), queue: queue, valid0: valid0, sticky: sticky || valid0, ttl: ttl, expires: expires}
			procs = append(procs, x)
			rec := &pairs{t: t, held: map[pair]bool{}}
			recs = append(recs, rec)
			dir := &directPairs{pairs{t: t, held: map[pair]bool{}, direct: true}}
			dirs = append(dirs, dir)
			clients = append(clients, New(x, WithTTL(ttl), WithObserver(rec), WithObserver(dir)))
		}
		for _, c := range clients { // first contact
			l, err := c.Mutex("contact").Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			l.Unlock()
		}
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for i, c := range clients {
			for g := range 1 + rnd.Intn(4) {
				r := rand.New(rand.NewSource(seed*1000 + int64(i*10+g)))
				wg.Go(func() {
					for k := 0; ; k++ {
						select {
						case <-stop:
							return
						default:
						}
						one(t, c, r, j, ttl, margin)
						if c.ctx.Err() != nil {
							return
						}
					}
				})
			}
		}
		// the weather
		for range 10 {
			x := procs[rnd.Intn(len(procs))]
			x.set(rnd.Float64()*0.6, rnd.Intn(3) == 0)
			time.Sleep(time.Duration(rnd.Int63n(int64(3 * ttl))))
			if rnd.Intn(2) == 0 {
				x.set(0, false)
			}
			if rnd.Intn(20) == 0 && len(clients) > 1 {
				i := rnd.Intn(len(clients))
				start := time.Now()
				clients[i].Close()
				if took := time.Since(start); took > 6*time.Second {
					t.Errorf("Close took %v", took)
				}
			}
		}
		for _, x := range procs {
			x.set(0, false)
		}
		time.Sleep(3 * ttl)
		close(stop)
		done := make(chan struct{})
		go func() { wg.Wait(); j.wg.Wait(); close(done) }()
		select {
		case <-done:
		case <-time.After(10 * time.Minute):
			t.Errorf("hang; held %v", j.held)
			for e := range mem.List(context.Background(), "") {
				t.Errorf("  %+v", e)
			}
			panic(fmt.Sprintf("hang seed %d", seed))
		}
		time.Sleep(4*ttl + 6*time.Second)
		synctest.Wait()
		for e := range mem.List(context.Background(), "") {
			t.Errorf("left over: %+v", e)
		}
		for i, c := range clients {
			if c.ctx.Err() != nil {
				continue
			}
			for _, g := range c.gatesInUse() {
				t.Errorf("client %d: a gate left: refs %d current %v line %d running %v", i, g.refs, g.current, len(g.line), g.running)
			}
			c.mu.Lock()
			for s := range c.sessions {
				s.mu.Lock()
				if len(s.set.Live()) > 0 || len(s.departures.all) > 0 || s.set.Held() != 0 {
					t.Errorf("client %d: %d live, %d held, %d leaving", i, len(s.set.Live()), s.set.Held(), len(s.departures.all))
				}
				s.mu.Unlock()
			}
			if len(c.sessions) > 1 {
				t.Errorf("client %d: %d sessions", i, len(c.sessions))
			}
			c.mu.Unlock()
		}
		for _, c := range clients {
			c.Close()
		}
		for i, c := range clients {
			recs[i].check(c.Stats())
			dirs[i].check(c.Stats())
		}
		if testing.Verbose() {
			t.Logf("seed %d ttl %v queue %v valid0 %v sticky %v: %d leases, %d lost", seed, ttl, queue, valid0, sticky, j.n, j.lost)
		}
	})
}

func one(t *testing.T, c *Client, r *rand.Rand, j *judge, ttl, margin time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	bounded := false
	switch r.Intn(4) {
	case 0:
		cancel()
		ctx, cancel = context.WithTimeout(context.Background(), time.Duration(r.Int63n(int64(2*ttl))))
		bounded = true
	}
	defer cancel()
	var opts []Option
	if r.Intn(8) == 0 {
		opts = append(opts, WithFair())
	}
	if r.Intn(8) == 0 {
		opts = append(opts, WithMaxHold(1+time.Duration(r.Int63n(int64(2*ttl)))))
	}
	if r.Intn(8) == 0 {
		opts = append(opts, WithoutRenewal())
	}
	if r.Intn(8) == 0 {
		bounded = true
		opts = append(opts, WithWait(time.Duration(r.Int63n(int64(ttl)))))
	}
	if r.Intn(4) == 0 {
		opts = append(opts, WithReentry())
	}
	name := "m"
	need := units
	var l *Lease
	var err error
	kind := r.Intn(10)
	try := r.Intn(5) == 0
	lock := c.Mutex("m", opts...).Lock
	switch {
	case kind < 6:
		if try {
			lock = c.Mutex("m", opts...).TryLock
		}
	case kind == 6:
		name = "w"
		rw := c.RWMutex("w", opts...)
		lock = rw.Lock
		if r.Intn(2) == 0 {
			need, lock = 1, rw.RLock
		}
	case kind == 7:
		name = "s"
		need = 1 + r.Intn(units)
		s := c.Semaphore("s", units, opts...)
		lock = func(ctx context.Context) (*Lease, error) { return s.Acquire(ctx, need) }
	default:
		all := c.LockAll
		if try {
			all = c.TryLockAll
		}
		l, err = all(ctx, []string{"m", "n"}, opts...)
		if err == nil {
			for _, p := range l.Parts() {
				j.took(p, p.Name(), units, false, margin)
			}
		}
		name = ""
	}
	if name != "" {
		l, err = lock(ctx)
		if err == nil {
			j.took(l, name, need, false, margin)
		}
	}
	if err != nil {
		switch {
		case errors.Is(err, ErrClosed), bounded && ctx.Err() != nil, errors.Is(err, ErrHeld):
		case errors.Is(err, ErrLost) && name == "": // LockAll
		case errors.Is(err, driver.ErrUnreachable), try:
		case ctx.Err() != nil:
			t.Errorf("waited for 5 minutes for %q: %v", name, err)
		default:
			t.Errorf("lock %q: %v", name, err)
		}
		time.Sleep(time.Duration(r.Int63n(int64(ttl / 10))))
		return
	}
	if name == "m" && r.Intn(3) == 0 {
		d1, d2, detach := time.Duration(r.Int63n(int64(20*time.Millisecond))), time.Duration(r.Int63n(int64(20*time.Millisecond))), r.Intn(2) == 0
		for range 1 + r.Intn(3) {
			j.wg.Go(func() {
				ctx := l.Context()
				if detach {
					ctx = context.WithoutCancel(ctx)
				}
				ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
				defer cancel()
				time.Sleep(d1)
				n, err := c.Mutex("m", WithReentry()).Lock(ctx)
				if err != nil {
					if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrLost) && l.Err() != nil && !errors.Is(l.Err(), ErrLost) {
						t.Errorf("nested: %v", err)
					}
					return
				}
				j.took(n, "m", units, false, margin)
				time.Sleep(d2)
				n.Unlock()
			})
		}
	}
	hold := time.Duration(r.Int63n(int64(20 * time.Millisecond)))
	switch r.Intn(10) {
	case 0:
		hold = time.Duration(r.Int63n(int64(3 * ttl)))
	}
	timer := time.NewTimer(hold)
	select {
	case <-timer.C:
	case <-l.Context().Done():
		if r.Intn(2) == 0 {
			time.Sleep(time.Duration(r.Int63n(int64(ttl))))
		}
	}
	timer.Stop()
	start := time.Now()
	err = l.Unlock()
	if took := time.Since(start); name != "" && took > min(ttl, 5*time.Second)+4*time.Millisecond {
		t.Errorf("Unlock took %v", took)
	}
	if err != nil && !errors.Is(err, ErrLost) && !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrClosed) {
		t.Errorf("unlock: %v", err)
	}
}

func TestRandomFaults(t *testing.T) {
	for seed := int64(1); seed <= 15 && !t.Failed(); seed++ {
		stress(t, seed)
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}
}

// TestSoakRandomFaults is the same with other seeds for as long as PAWL_SOAK says.
func TestSoakRandomFaults(t *testing.T) {
	d, err := time.ParseDuration(os.Getenv("PAWL_SOAK"))
	if err != nil {
		t.Skip("set PAWL_SOAK to a duration, such as 10m")
	}
	seed, n := time.Now().Unix()*1000, 0
	for end := time.Now().Add(d); time.Now().Before(end) && !t.Failed(); n++ {
		stress(t, seed+int64(n))
		if t.Failed() {
			t.Logf("seed %d", seed+int64(n))
		}
	}
	t.Logf("%d seeds from %d", n, seed)
}
