package redislock_test

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
	"github.com/pawl-go/pawl/redislock"
)

// cutTTL is the lease of every claim; brief, that of those who are to be dead.
const (
	cutTTL = 5 * time.Second
	brief  = 250 * time.Millisecond
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
	f := newTheatre(t)
	var wg sync.WaitGroup
	var cuts atomic.Int64
	for i, sc := range scenes {
		for _, repeated := range []bool{true, false} {
			for k := range cutters {
				wg.Go(func() {
					for n := 1 + k; f.cutShort(fmt.Sprintf("cut%d.%t.%d:", i, repeated, n), sc, n, repeated, &wg); n += cutters {
						cuts.Add(1)
					}
				})
			}
		}
	}
	wg.Wait()
	t.Logf("%d scripts were cut short, in %d scenes", cuts.Load(), len(scenes))
	if cuts.Load() < 30*int64(len(scenes)) {
		t.Error("that is too few")
	}
}

// cutters are how many plays of one scene are prepared beside each other: those with
// dead claims wait for them to die.
const cutters = 4

// A theatre is a server on which plays are given.
type theatre struct {
	t     *testing.T
	at    *console
	own   redis.Client
	texts *texts
	few   chan struct{} // who has a place enters claims; what dies or heals mostly waits, and needs none
}

func newTheatre(t *testing.T) *theatre {
	s := testserver.Redis(t)
	own, err := redis.NewClient(redis.ClientOption{InitAddress: []string{s.Addr()}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Close)
	return &theatre{t: t, at: newConsole(t, s.Addr()), own: own, texts: &texts{}, few: make(chan struct{}, 16)}
}

// cutShort plays a scene whose call is cut at its n-th, and has wg heal what it leaves.
// It reports whether the call was cut: it may have fewer.
func (f *theatre) cutShort(prefix string, sc scene, n int, repeated bool, wg *sync.WaitGroup) bool {
	play := func(prefix string) *play {
		for again := range 4 {
			p := f.newPlay(fmt.Sprint(prefix, again, ":"), sc, brief<<again)
			cut := p.run(n, false)
			p.answered(time.Now(), false)
			if !p.late && cut {
				return p
			}
			p.close()
			if !p.late {
				p.report()
				return nil
			}
		}
		f.t.Errorf("%s, then %s, cut at %d: the machine stood still in each of four plays", sc.claims, sc.call, n)
		return nil
	}
	p := play(prefix)
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
			p = play(fmt.Sprint(prefix, "again", again, ":"))
		}
	})
	return true
}

// TestNoScriptTouchesAKeyThatItHasRemoved: where all keys of a script are on one
// node while their slot is moved, it is not cut short.
func TestNoScriptTouchesAKeyThatItHasRemoved(t *testing.T) {
	t.Parallel()
	f := newTheatre(t)
	var wg sync.WaitGroup
	var whole atomic.Int64
	for i, sc := range scenes {
		wg.Go(func() {
			p := f.newPlay(fmt.Sprintf("moved%d:", i), sc, brief)
			defer p.close()
			if !p.complete() {
				return
			}
			whole.Add(1)
			if p.run(0, true) && !strings.HasPrefix(sc.call, "later") { // who comes again makes what it has removed
				t.Errorf("%s, then %s: %v", sc.claims, sc.call, p.err)
			}
		})
	}
	wg.Wait()
	if whole.Load() < 5 {
		t.Errorf("in %d scenes only are all keys there", whole.Load())
	}
}

// A play is a scene on a server.
type play struct {
	t       *testing.T
	at      *console
	c       *cutter
	prefix  string
	e       *redislock.Engine
	s       driver.Session
	scene   scene
	claims  []driver.Claim // those that live
	held    []bool
	called  driver.Claim // the one that the call is about
	target  int          // its index; -1: it is none of them
	err     error        // of the call
	renewed time.Time    // when what renewed the claims last was sent
	late    bool         // they may have ended: the machine stood still
	wrong   []string     // what is, if it is not late
}

func (f *theatre) newPlay(prefix string, sc scene, brief time.Duration) *play {
	f.few <- struct{}{}
	p := &play{t: f.t, at: f.at, c: &cutter{c: f.own, texts: f.texts}, prefix: prefix, scene: sc, target: -1, renewed: time.Now()}
	p.e = redislock.New(p.c, redislock.Prefix(prefix)).(*redislock.Engine)
	open := func(id string, ttl time.Duration) driver.Session {
		s, err := p.e.Open(context.Background(), driver.SessionOptions{ID: id, TTL: ttl})
		if err != nil {
			panic(err) // the cutter has no such error
		}
		return s
	}
	p.s = open("lives", cutTTL)
	dying := open("dies", brief)
	var died time.Time // when the first who dies was entered
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
	<-f.few
	if !died.IsZero() {
		p.late = time.Since(died) > brief
		time.Sleep(brief * 6 / 5) // their leases end
	}
	return p
}

func (p *play) close() { _ = p.e.Close() }

// errorf notes what is wrong, unless it may be the machine.
func (p *play) errorf(format string, args ...any) {
	p.wrong = append(p.wrong, fmt.Sprintf("%s, then %s (%v): ", p.scene.claims, p.scene.call, p.err)+fmt.Sprintf(format, args...))
}

func (p *play) report() {
	for _, what := range p.wrong {
		p.t.Error(what)
	}
}

// answered is called when the answer to what was sent is there: the claims lived until
// then, or the machine stood still.
func (p *play) answered(sent time.Time, renews bool) {
	p.late = p.late || time.Since(p.renewed) > cutTTL*9/10
	if renews {
		p.renewed = sent
	}
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
		p.errorf("Line: %v", err)
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
	verb, _, _ := strings.Cut(p.scene.call, " ")
	if repeated && (verb == "enter" || verb == "later") {
		left = append(left, p.called)
	}
	if !p.drains(left, begun) {
		return
	}
	for last := p.claim(88, "w"); ; time.Sleep(cutPause) {
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
		if repeated || sent.Sub(begun) > 2*cutTTL {
			p.errorf("repeated %t: after %v the last waits behind %v: %+v", repeated, sent.Sub(begun), p.line(), st)
			return
		}
	}
	_ = p.s.Leave(ctx, p.called) // where the call was an Enter that stands, and had no place
	if verb != "watch" && p.at.do("EXISTS", p.prefix+"n", p.prefix+"\x01hn", p.prefix+"\x01hn\x01w", p.prefix+"\x01hn\x01l") != "0" {
		p.errorf("repeated %t: something stays: %v", repeated, p.line())
	}
}

// cutPause is how often a play looks: often enough to keep its claims.
const cutPause = cutTTL / 5

// drains beats the claims that are left and lets those leave who hold, until all
// have held. It reports whether they have.
func (p *play) drains(left []driver.Claim, begun time.Time) bool {
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
			if sent.Sub(begun) > 2*cutTTL {
				p.errorf("%d claims wait behind %v", len(rest), p.line())
				return false
			}
			time.Sleep(cutPause)
		}
	}
	return true
}
