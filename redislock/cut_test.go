package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/redislock"
)

// cutTTL is the lease of every claim; brief ends before a test looks.
const (
	cutTTL = 3 * time.Second
	brief  = 50 * time.Millisecond
)

// A scene is a name with claims in its line, in order, and one more call about it,
// which is cut short. A claim is "w", "r", "p1" to "p3" (of 3), with "!" behind it if
// its holder is dead by then.
type scene struct {
	claims string
	call   string // "enter w", "again 0", "later 0", "leave 0", "beat 0", "evict 0", "line", "watch"
}

var scenes = []scene{
	{"", "enter w"}, {"", "enter r"}, {"", "enter p2"}, {"", "watch"}, {"", "line"},
	{"w", "enter w"}, {"w", "enter r"}, {"w", "again 0"}, {"w", "later 0"}, {"w", "leave 0"}, {"w", "beat 0"}, {"w", "evict 0"}, {"w", "watch"},
	{"w w", "leave 0"}, {"w w", "leave 1"}, {"w w", "evict 0"}, {"w w", "evict 1"}, {"w w", "beat 1"}, {"w w", "again 1"}, {"w w", "later 1"}, {"w w", "later 0"}, {"w w", "enter w"}, {"w w", "line"},
	{"w r r", "leave 0"}, {"w r r w", "leave 0"}, {"w p1 p2 p1", "leave 0"}, {"w r r", "later 0"},
	{"r", "enter r"}, {"r", "enter w"}, {"r", "leave 0"}, {"r", "beat 0"}, {"r", "again 0"}, {"r", "later 0"}, {"r", "evict 0"},
	{"r r", "leave 0"}, {"r w", "leave 0"}, {"r w r", "leave 0"}, {"r w r", "leave 1"}, {"r r w r", "evict 0"}, {"r w", "beat 1"}, {"r w", "beat 0"},
	{"p2 p2 p1", "leave 0"}, {"p2 p2 p1", "enter p1"}, {"p1 p1 p3", "leave 0"}, {"p3 p1 p1 p1", "leave 0"},
	{"w! w", "beat 1"}, {"w! w r", "enter r"}, {"r! w r", "beat 1"}, {"r! r w", "enter w"}, {"r w! r", "beat 2"}, {"p2! p2 p1", "beat 2"}, {"w! r! w", "line"}, {"r!", "enter w"}, {"r! w!", "enter r"},
}

// TestAScriptThatIsCutShortAnywhereLeavesALineThatHeals: for every call of every
// script. Whoever holds goes on to hold alone, nobody loses a place, and a claim
// that comes later waits for nobody that is not there.
func TestAScriptThatIsCutShortAnywhereLeavesALineThatHeals(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t)
	at := newConsole(t, s.Addr())
	own, err := redis.NewClient(redis.ClientOption{InitAddress: []string{s.Addr()}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Close)
	var wg sync.WaitGroup
	defer wg.Wait()
	few := make(chan struct{}, 400) // what heals at a time
	cuts := 0
	for i, sc := range scenes {
		for _, repeated := range []bool{true, false} {
			for n := 1; ; n++ {
				p := newPlay(t, at, own, fmt.Sprintf("cut%d.%t.%d:", i, repeated, n), sc)
				if !p.run(n, false) {
					break
				}
				cuts++
				few <- struct{}{}
				wg.Go(func() {
					defer func() { <-few }()
					p.heals(repeated)
				})
			}
		}
	}
	t.Logf("%d scripts were cut short, in %d scenes", cuts, len(scenes))
	if cuts < 10*len(scenes) {
		t.Error("that is too few")
	}
}

// TestNoScriptTouchesAKeyThatItHasRemoved: where all keys of a script are on one
// node while their slot is moved, it is not cut short.
func TestNoScriptTouchesAKeyThatItHasRemoved(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t)
	at := newConsole(t, s.Addr())
	own, err := redis.NewClient(redis.ClientOption{InitAddress: []string{s.Addr()}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Close)
	whole := 0
	for i, sc := range scenes {
		if p := newPlay(t, at, own, fmt.Sprintf("moved%d:", i), sc); p.complete() {
			whole++
			if p.run(0, true) && !strings.HasPrefix(sc.call, "later") { // who comes again makes what it has removed
				t.Errorf("%s, then %s: %v", sc.claims, sc.call, p.err)
			}
		}
	}
	if whole < 5 {
		t.Errorf("in %d scenes only are all keys there", whole)
	}
}

// A play is a scene on a server.
type play struct {
	t      *testing.T
	at     *console
	c      *cutter
	prefix string
	e      *redislock.Engine
	s      driver.Session
	scene  scene
	claims []driver.Claim // those that live
	held   []bool
	called driver.Claim // the one that the call is about
	target int          // its index; -1: it is none of them
	err    error        // of the call
}

func newPlay(t *testing.T, at *console, own redis.Client, prefix string, sc scene) *play {
	p := &play{t: t, at: at, c: &cutter{c: own}, prefix: prefix, scene: sc, target: -1}
	p.e = redislock.New(p.c, redislock.Prefix(prefix)).(*redislock.Engine)
	t.Cleanup(func() { _ = p.e.Close() })
	open := func(id string, ttl time.Duration) driver.Session {
		s, err := p.e.Open(context.Background(), driver.SessionOptions{ID: id, TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	p.s = open("lives", cutTTL)
	dying := open("dies", brief)
	dead := false
	for i, kind := range strings.Fields(sc.claims) {
		kind, dies := strings.CutSuffix(kind, "!")
		c, s := p.claim(i+1, kind), p.s
		if dies {
			s, dead = dying, true
		}
		st, err := s.Enter(context.Background(), c)
		if err != nil {
			t.Fatalf("%s: claim %d: %v", sc.claims, i, err)
		}
		if dies {
			p.claims, p.held = append(p.claims, driver.Claim{}), append(p.held, false)
			continue
		}
		p.claims, p.held = append(p.claims, c), append(p.held, st.Held)
	}
	if dead {
		time.Sleep(2 * brief) // their leases end
	}
	return p
}

// claim makes one of a kind.
func (p *play) claim(id int, kind string) driver.Claim {
	c := driver.Claim{ID: fmt.Sprintf("%032x", id), Try: 1, Name: "n", Need: driver.All, Limit: driver.All, Queue: true}
	switch kind[0] {
	case 'r':
		c.Need = 1
	case 'p':
		c.Need, c.Limit = int(kind[1]-'0'), 3
	}
	return c
}

// complete reports whether all keys of the name are there.
func (p *play) complete() bool {
	return p.at.do("EXISTS", p.prefix+"n", p.prefix+"\x01hn", p.prefix+"\x01hn\x01w", p.prefix+"\x01hn\x01l") == "4"
}

// run makes the call, and reports whether it was cut short.
func (p *play) run(n int, move bool) bool {
	p.c.cut(n, move)
	p.err = p.call()
	cut := p.c.was()
	if p.err != nil && !cut && !errors.Is(p.err, driver.ErrGone) {
		p.t.Errorf("%s, then %s, cut at %d: %v", p.scene.claims, p.scene.call, n, p.err)
	}
	return cut
}

func (p *play) call() error {
	ctx := context.Background()
	verb, what, _ := strings.Cut(p.scene.call, " ")
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

// line is the line as it stands, read by a call that is not cut.
func (p *play) line() []driver.Entry {
	p.c.mu.Lock()
	at, move := p.c.at, p.c.move
	p.c.at, p.c.move = 0, false
	p.c.mu.Unlock()
	line, err := p.e.Line(context.Background(), "n")
	if err != nil {
		p.t.Errorf("%s: Line: %v", p.scene.claims, err)
	}
	p.c.mu.Lock()
	p.c.at, p.c.move = at, move
	p.c.mu.Unlock()
	return line
}

// uncertain reports whether the call may have ended claim i, or not.
func (p *play) uncertain(i int) bool {
	verb, _, _ := strings.Cut(p.scene.call, " ")
	return i == p.target && (verb == "leave" || verb == "evict" || verb == "later")
}

// heals checks what must hold after a call was cut short. It is repeated as the
// core would, or its caller has died.
func (p *play) heals(repeated bool) {
	t, ctx, begun := p.t, context.Background(), time.Now()
	about := fmt.Sprintf("%s, then %s (%v), repeated %t", p.scene.claims, p.scene.call, p.err, repeated)
	rival := p.claim(77, "w")
	rival.Queue = false
	st, err := p.s.Enter(ctx, rival)
	if err != nil {
		t.Errorf("%s: a rival: %v", about, err)
		return
	}
	if st.Held {
		for i := range p.claims {
			if p.held[i] && !p.uncertain(i) {
				t.Errorf("%s: a rival holds beside claim %d", about, i)
			}
		}
		if err := p.s.Leave(ctx, rival); err != nil {
			t.Errorf("%s: the rival leaves: %v", about, err)
		}
	}
	if repeated {
		if err := p.call(); err != nil && !errors.Is(err, driver.ErrGone) {
			t.Errorf("%s: the second time: %v", about, err)
		}
	}
	var left []driver.Claim
	for i, c := range p.claims {
		if c.ID != "" && !p.uncertain(i) {
			left = append(left, c)
		}
	}
	verb, _, _ := strings.Cut(p.scene.call, " ")
	if repeated && (verb == "enter" || verb == "later") {
		left = append(left, p.called)
	}
	p.drains(about, left, begun)
	for last := p.claim(88, "w"); ; {
		st, err := p.s.Enter(ctx, last)
		if err != nil {
			t.Errorf("%s: the last: %v", about, err)
			return
		}
		if st.Held {
			_ = p.s.Leave(ctx, last)
			break
		}
		if repeated || time.Since(begun) > 3*cutTTL {
			t.Errorf("%s: after %v the last waits behind %v: %+v", about, time.Since(begun), p.line(), st)
			return
		}
		time.Sleep(cutTTL / 20)
	}
	_ = p.s.Leave(ctx, p.called) // where the call was an Enter that stands, and had no place
	if verb != "watch" && p.at.do("EXISTS", p.prefix+"n", p.prefix+"\x01hn", p.prefix+"\x01hn\x01w", p.prefix+"\x01hn\x01l") != "0" {
		t.Errorf("%s: something stays: %v", about, p.line())
	}
}

// drains beats the claims that are left and lets those leave who hold, until all
// have held.
func (p *play) drains(about string, left []driver.Claim, begun time.Time) {
	ctx, out := context.Background(), make([]driver.Standing, len(left))
	for len(left) > 0 {
		if err := p.s.Beat(ctx, left, out[:len(left)]); err != nil {
			p.t.Errorf("%s: Beat: %v", about, err)
			return
		}
		sum, most := 0, driver.All
		var rest, done []driver.Claim
		for i, c := range left {
			switch {
			case out[i].Gone:
				p.t.Errorf("%s: claim %s has lost its place", about, c.ID[30:])
			case out[i].Held:
				sum, most = sum+c.Need, c.Limit
				done = append(done, c)
			default:
				rest = append(rest, c)
			}
		}
		if sum > most {
			p.t.Errorf("%s: %d units are held of %d", about, sum, most)
		}
		for _, c := range done {
			if err := p.s.Leave(ctx, c); err != nil {
				p.t.Errorf("%s: Leave: %v", about, err)
			}
		}
		if left = rest; len(done) == 0 && len(rest) > 0 {
			if time.Since(begun) > 3*cutTTL {
				p.t.Errorf("%s: %d claims wait behind %v", about, len(rest), p.line())
				return
			}
			time.Sleep(cutTTL / 20)
		}
	}
}
