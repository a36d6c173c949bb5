package redisline_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/redislock/internal/keyspace"
	"github.com/pawl-go/pawl/redislock/internal/redisclient"
	"github.com/pawl-go/pawl/redislock/internal/redisline"
)

// leaseTTL is the TTL of the claims; brief, that of the claims that are to expire.
const (
	leaseTTL = 5 * time.Second
	brief    = 250 * time.Millisecond
)

// A scenario is a name with claims in its line, in order, and one more call on it, which
// is interrupted. A claim is "w", "r", "p1" to "p3" (of 3), with "!" behind it if it has
// expired by then.
type scenario struct {
	claims string
	call   string // "enter w", "again 0", "later 0", "leave 0", "beat 0", "evict 0", "line", "watch"
}

var scenarios = []scenario{
	{"", "enter w"}, {"", "enter r"}, {"", "enter p2"}, {"", "watch"}, {"", "line"},
	{"w", "enter w"}, {"w", "enter r"}, {"w", "again 0"}, {"w", "later 0"}, {"w", "leave 0"}, {"w", "beat 0"}, {"w", "evict 0"}, {"w", "watch"},
	{"w w", "leave 0"}, {"w w", "leave 1"}, {"w w", "evict 0"}, {"w w", "evict 1"}, {"w w", "beat 1"}, {"w w", "again 1"}, {"w w", "later 1"}, {"w w", "later 0"}, {"w w", "enter w"}, {"w w", "line"},
	{"w r r", "leave 0"}, {"w r r w", "leave 0"}, {"w p1 p2 p1", "leave 0"}, {"w r r", "later 0"},
	{"r", "enter r"}, {"r", "enter w"}, {"r", "leave 0"}, {"r", "beat 0"}, {"r", "again 0"}, {"r", "later 0"}, {"r", "evict 0"},
	{"r r", "leave 0"}, {"r w", "leave 0"}, {"r w r", "leave 0"}, {"r w r", "leave 1"}, {"r r w r", "evict 0"}, {"r w", "beat 1"}, {"r w", "beat 0"},
	{"p2 p2 p1", "leave 0"}, {"p2 p2 p1", "enter p1"}, {"p1 p1 p3", "leave 0"}, {"p3 p1 p1 p1", "leave 0"},
	{"w! w", "beat 1"}, {"w! w r", "enter r"}, {"r! w r", "beat 1"}, {"r! r w", "enter w"}, {"r w! r", "beat 2"}, {"p2! p2 p1", "beat 2"}, {"w! r! w", "line"}, {"r!", "enter w"}, {"r! w!", "enter r"},
}

// Every call of every script is interrupted once. A holder must keep its hold, no claim
// may lose its place, and a later claim must not wait for one that does not exist.
func TestAScriptThatIsInterruptedAnywhereLeavesALineThatHeals(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var wg sync.WaitGroup
	var interrupted atomic.Int64
	for i, sc := range scenarios {
		for _, repeated := range []bool{true, false} {
			for k := range parallel {
				wg.Go(func() {
					for n := 1 + k; f.interrupt(fmt.Sprintf("stop%d.%t.%d:", i, repeated, n), sc, n, repeated, &wg); n += parallel {
						interrupted.Add(1)
					}
				})
			}
		}
	}
	wg.Wait()
	t.Logf("%d scripts were interrupted, in %d scenarios", interrupted.Load(), len(scenarios))
	if interrupted.Load() < 30*int64(len(scenarios)) {
		t.Error("those are too few")
	}
}

// parallel is how many runs of one scenario are prepared concurrently: most time is spent
// waiting for claims to expire.
const parallel = 4

// A fixture is a server that runs share.
type fixture struct {
	t        *testing.T
	own      redis.Client
	scripts  *scriptTexts
	entering chan struct{} // bounds the runs that enter claims; those that wait need no place
}

func newFixture(t *testing.T) *fixture {
	s := testserver.Redis(t)
	own, err := redis.NewClient(redis.ClientOption{InitAddress: []string{s.Addr()}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Close)
	return &fixture{t: t, own: own, scripts: &scriptTexts{}, entering: make(chan struct{}, 16)}
}

// interrupt runs a scenario whose script is stopped at its n-th call, and has wg check
// that the line heals. It reports whether the script was stopped: it may have fewer calls.
func (f *fixture) interrupt(prefix string, sc scenario, n int, repeated bool, wg *sync.WaitGroup) bool {
	start := func(prefix string) *run {
		for again := range 4 {
			p := f.newRun(fmt.Sprint(prefix, again, ":"), sc, brief<<again)
			interrupted := p.run(n, false)
			p.answered(time.Now(), false)
			if !p.late && interrupted {
				return p
			}
			p.close()
			if !p.late {
				p.report()
				return nil
			}
		}
		f.t.Errorf("%s, then %s, stopped at %d: the machine stalled in each of four runs", sc.claims, sc.call, n)
		return nil
	}
	p := start(prefix)
	if p == nil {
		return false
	}
	wg.Go(func() {
		for again := 1; p != nil; again++ {
			p.heals(repeated)
			p.close()
			if !p.late || again == 5 {
				p.report()
				return
			}
			p = start(fmt.Sprint(prefix, "again", again, ":"))
		}
	})
	return true
}

// While a slot is moved, a script whose keys are all on one node must not be interrupted.
func TestNoScriptTouchesAKeyThatItHasRemoved(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var wg sync.WaitGroup
	var complete atomic.Int64
	for i, sc := range scenarios {
		wg.Go(func() {
			p := f.newRun(fmt.Sprintf("moved%d:", i), sc, brief)
			defer p.close()
			if p.keys() < 4 {
				return
			}
			complete.Add(1)
			if p.run(0, true) && !strings.HasPrefix(sc.call, "later") { // a higher Try creates what it has removed
				t.Errorf("%s, then %s: %v", sc.claims, sc.call, p.err)
			}
		})
	}
	wg.Wait()
	if complete.Load() < 5 {
		t.Errorf("all keys exist in %d scenarios only", complete.Load())
	}
}

// A run is a scenario on a server.
type run struct {
	t        *testing.T
	own      redis.Client
	c        *interrupter
	prefix   string
	e        *redisline.Engine
	s        driver.Session
	scenario scenario
	claims   []driver.Claim // those that have not expired
	held     []bool
	called   driver.Claim // the one that the call is about
	target   int          // its index; -1: none of them
	err      error        // of the call
	renewed  time.Time    // when the call that renewed the claims last was sent
	late     bool         // they may have expired: the machine stalled
	wrong    []string     // faults, unless it is late
}

// newRunOn returns a run without claims, on a client.
func newRunOn(f *fixture, c redisclient.Client, prefix string) *run {
	return &run{t: f.t, own: f.own, prefix: prefix, target: -1, renewed: time.Now(), e: redisline.New(redisline.Config{
		Client: c, Keys: keyspace.New(prefix, "engine", false), Eviction: redisclient.NewEvictionCheck(c, true, 0),
	})}
}

func (f *fixture) newRun(prefix string, sc scenario, brief time.Duration) *run {
	f.entering <- struct{}{}
	c := &interrupter{c: f.own, scripts: f.scripts}
	p := newRunOn(f, c, prefix)
	p.c, p.scenario = c, sc
	open := func(id string, ttl time.Duration) driver.Session {
		s, err := p.e.Open(context.Background(), driver.SessionOptions{ID: id, TTL: ttl})
		if err != nil {
			panic(err) // nothing is sent
		}
		return s
	}
	p.s = open("lives", leaseTTL)
	dying := open("dies", brief)
	var died time.Time // when the first claim that expires was entered
	for i, kind := range strings.Fields(sc.claims) {
		kind, dies := strings.CutSuffix(kind, "!")
		c, s := p.claim(i+1, kind), p.s
		if dies {
			if s = dying; died.IsZero() {
				died = time.Now()
			}
		}
		st, err := s.Enter(context.Background(), c)
		if err != nil {
			p.errorf("claim %d: %v", i, err)
		}
		if dies {
			p.claims, p.held = append(p.claims, driver.Claim{}), append(p.held, false)
			continue
		}
		p.claims, p.held = append(p.claims, c), append(p.held, st.Held)
	}
	<-f.entering
	if !died.IsZero() {
		p.late = time.Since(died) > brief
		time.Sleep(brief * 6 / 5) // they expire
	}
	return p
}

func (p *run) close() { _ = p.e.Close() }

// errorf notes a fault; report reports it unless the machine stalled.
func (p *run) errorf(format string, args ...any) {
	p.wrong = append(p.wrong, fmt.Sprintf("%s, then %s (%v): ", p.scenario.claims, p.scenario.call, p.err)+fmt.Sprintf(format, args...))
}

func (p *run) report() {
	for _, what := range p.wrong {
		p.t.Error(what)
	}
}

// answered notes that a call was answered: if the claims can have expired by now, the
// machine stalled.
func (p *run) answered(sent time.Time, renews bool) {
	p.late = p.late || time.Since(p.renewed) > leaseTTL*9/10
	if renews {
		p.renewed = sent
	}
}

// claim makes one of a kind.
func (p *run) claim(id int, kind string) driver.Claim {
	c := driver.Claim{ID: fmt.Sprintf("%032x", id), Try: 1, Name: "n", Need: driver.All, Limit: driver.All, Queue: true}
	switch kind[0] {
	case 'r':
		c.Need = 1
	case 'p':
		c.Need, c.Limit = int(kind[1]-'0'), 3
	}
	return c
}

// keys counts the keys of the name that exist.
func (p *run) keys() int64 {
	n, err := p.own.Do(context.Background(), p.own.B().Exists().Key(keyspace.New(p.prefix, "", false).Of("n").All()...).Build()).AsInt64()
	if err != nil {
		p.t.Error(err)
	}
	return n
}

// run makes the call, and reports whether its script was interrupted.
func (p *run) run(n int, missing bool) bool {
	p.c.interrupt(n, missing)
	p.err = p.call()
	interrupted := p.c.reset()
	if p.err != nil && !interrupted && !errors.Is(p.err, driver.ErrGone) {
		p.t.Errorf("%s, then %s, stopped at %d: %v", p.scenario.claims, p.scenario.call, n, p.err)
	}
	return interrupted
}

func (p *run) call() error {
	ctx := context.Background()
	verb, what, _ := strings.Cut(p.scenario.call, " ")
	if verb != "enter" && what != "" {
		p.target = int(what[0] - '0')
		p.called = p.claims[p.target]
	}
	switch verb {
	case "enter":
		p.called = p.claim(99, what)
		_, err := p.s.Enter(ctx, p.called)
		return err
	case "again":
		_, err := p.s.Enter(ctx, p.called)
		return err
	case "later":
		p.called.Try++
		_, err := p.s.Enter(ctx, p.called)
		return err
	case "leave":
		return p.s.Leave(ctx, p.called)
	case "beat":
		return p.s.Beat(ctx, []driver.Claim{p.called}, make([]driver.Standing, 1))
	case "evict":
		for _, x := range p.line() {
			if x.ID == p.called.ID {
				return p.e.Evict(ctx, x)
			}
		}
		return driver.ErrGone
	case "line":
		_, err := p.e.Line(ctx, "n")
		return err
	case "watch":
		return p.e.WatchOnce(ctx, "n")
	}
	return errors.New("no such call: " + verb)
}

// line reads the line by a call that is not interrupted.
func (p *run) line() []driver.Entry {
	p.c.mu.Lock()
	at, missing := p.c.at, p.c.missing
	p.c.at, p.c.missing = 0, false
	p.c.mu.Unlock()
	line, err := p.e.Line(context.Background(), "n")
	if err != nil {
		p.errorf("Line: %v", err)
	}
	p.c.mu.Lock()
	p.c.at, p.c.missing = at, missing
	p.c.mu.Unlock()
	return line
}

// uncertain reports whether the call may or may not have ended claim i.
func (p *run) uncertain(i int) bool {
	verb, _, _ := strings.Cut(p.scenario.call, " ")
	return i == p.target && (verb == "leave" || verb == "evict" || verb == "later")
}

// heals checks the line after a script was interrupted. The call is repeated as the core
// would, or its caller has died.
func (p *run) heals(repeated bool) {
	ctx, begun := context.Background(), time.Now()
	rival := p.claim(77, "w")
	rival.Queue = false
	st, err := p.s.Enter(ctx, rival)
	p.answered(begun, false)
	if err != nil {
		p.errorf("a rival: %v", err)
		return
	}
	if st.Held {
		for i := range p.claims {
			if p.held[i] && !p.uncertain(i) {
				p.errorf("a rival holds beside claim %d", i)
			}
		}
		if err := p.s.Leave(ctx, rival); err != nil {
			p.errorf("the rival leaves: %v", err)
		}
	}
	if repeated {
		if err := p.call(); err != nil && !errors.Is(err, driver.ErrGone) {
			p.errorf("the second time: %v", err)
		}
	}
	var left []driver.Claim
	for i, c := range p.claims {
		if c.ID != "" && !p.uncertain(i) {
			left = append(left, c)
		}
	}
	verb, _, _ := strings.Cut(p.scenario.call, " ")
	if repeated && (verb == "enter" || verb == "later") {
		left = append(left, p.called)
	}
	if !p.drains(left, begun) {
		return
	}
	for last := p.claim(88, "w"); ; time.Sleep(beatPause) {
		sent := time.Now()
		st, err := p.s.Enter(ctx, last)
		if err != nil {
			p.errorf("the last: %v", err)
			return
		}
		if st.Held {
			_ = p.s.Leave(ctx, last)
			break
		}
		if repeated || sent.Sub(begun) > 2*leaseTTL {
			p.errorf("repeated %t: after %v the last waits behind %v: %+v", repeated, sent.Sub(begun), p.line(), st)
			return
		}
	}
	_ = p.s.Leave(ctx, p.called) // if the interrupted Enter took effect
	if verb != "watch" && p.keys() != 0 {
		p.errorf("repeated %t: something stays: %v", repeated, p.line())
	}
}

// beatPause is the time between beats: short enough to keep the claims.
const beatPause = leaseTTL / 5

// drains beats the claims that are left and ends those that hold, until all have held.
// It reports whether they have.
func (p *run) drains(left []driver.Claim, begun time.Time) bool {
	ctx, out := context.Background(), make([]driver.Standing, len(left))
	for len(left) > 0 {
		sent := time.Now()
		if err := p.s.Beat(ctx, left, out[:len(left)]); err != nil {
			p.errorf("Beat: %v", err)
			return false
		}
		p.answered(sent, true)
		sum, most := 0, driver.All
		var rest, done []driver.Claim
		for i, c := range left {
			switch {
			case out[i].Gone:
				p.errorf("claim %s has lost its place", c.ID[30:])
			case out[i].Held:
				sum, most = sum+c.Need, c.Limit
				done = append(done, c)
			default:
				rest = append(rest, c)
			}
		}
		if sum > most {
			p.errorf("%d units are held of %d", sum, most)
		}
		for _, c := range done {
			if err := p.s.Leave(ctx, c); err != nil {
				p.errorf("Leave: %v", err)
			}
		}
		if left = rest; len(done) == 0 && len(rest) > 0 {
			if sent.Sub(begun) > 2*leaseTTL {
				p.errorf("%d claims wait behind %v", len(rest), p.line())
				return false
			}
			time.Sleep(beatPause)
		}
	}
	return true
}
