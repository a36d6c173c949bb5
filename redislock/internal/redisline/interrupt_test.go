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
)

// leaseTTL is the TTL of the claims; brief, that of the claims that are to expire.
const (
	leaseTTL = 5 * time.Second
	brief    = 250 * time.Millisecond
)

// A scenario is a name with claims in its line, in order, and one more call on it, which
// is interrupted. A claim is "w", "r", "p1" to "p3" (of 3), with "!" behind it if it has
// expired by then, and "!!" if besides no script drops more than one such claim.
type scenario struct {
	claims string
	call   string // "enter w", "again 0", "later 0", "leave 0", "beat 0", "beats" of all, "leaves 1" from that one on, "evict 0", "line", "watch"
}

var scenarios = []scenario{
	{"", "enter w"}, {"", "enter r"}, {"", "enter p2"}, {"", "watch"}, {"", "line"},
	{"w", "enter w"}, {"w", "enter r"}, {"w", "again 0"}, {"w", "later 0"}, {"w", "leave 0"}, {"w", "beat 0"}, {"w", "evict 0"}, {"w", "watch"},
	{"w w", "leave 0"}, {"w w", "leave 1"}, {"w w", "evict 0"}, {"w w", "evict 1"}, {"w w", "beat 1"}, {"w w", "again 1"}, {"w w", "later 1"}, {"w w", "later 0"}, {"w w", "enter w"}, {"w w", "line"},
	{"w r r", "leave 0"}, {"w r r w", "leave 0"}, {"w p1 p2 p1", "leave 0"}, {"w r r", "later 0"},
	{"r", "enter r"}, {"r", "enter w"}, {"r", "leave 0"}, {"r", "beat 0"}, {"r", "again 0"}, {"r", "later 0"}, {"r", "evict 0"},
	{"r r", "leave 0"}, {"r w", "leave 0"}, {"r w r", "leave 0"}, {"r w r", "leave 1"}, {"r r w r", "evict 0"}, {"r w", "beat 1"}, {"r w", "beat 0"},
	{"p2 p2 p1", "leave 0"}, {"p2 p2 p1", "enter p1"}, {"p1 p1 p3", "leave 0"}, {"p3 p1 p1 p1", "leave 0"},
	{"w w w", "beats"}, {"r r w w", "beats"}, {"p2 p2 p1", "beats"}, {"w! w w", "beats"}, {"r! w w", "beats"}, {"r r! w w", "beats"},
	{"w w w", "leaves 0"}, {"w w w", "leaves 1"}, {"r r w w", "leaves 0"}, {"r r w r", "leaves 1"}, {"p2 p2 p1 p3", "leaves 1"}, {"w! w w w", "leaves 1"},
	{"w!! w!! w", "beat 2"}, {"w!! w!! w!! w", "enter w"}, {"w!! r!! r", "enter r"}, {"r!! r!! w", "beat 2"}, {"p2!! p1!! p3!! p1", "enter p1"}, {"p2!! w!! p1!!", "enter r"},
	{"w w!! w!! w", "leave 0"}, {"w w!! w!! w w", "beats"}, {"w w!! w!! w w", "leaves 0"}, {"r!! r!! r w", "evict 2"}, {"w!! w!! r", "line"}, {"w!! w!! w w", "again 2"}, {"w!! w!! w", "watch"},
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
