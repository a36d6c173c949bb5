package redisline_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/keyspace"
	"github.com/pawl-go/pawl/redislock/internal/redisclient"
	"github.com/pawl-go/pawl/redislock/internal/redisline"
)

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
		Lister:   keyspace.Lister{Client: c, Keys: keyspace.New(prefix, "engine", false)},
		Eviction: redisclient.NewEvictionCheck(c, true, 0),
	})}
}

func (f *fixture) newRun(prefix string, sc scenario, brief time.Duration) *run {
	f.entering <- struct{}{}
	c := &interrupter{c: f.own, scripts: f.scripts, few: strings.Contains(sc.claims, "!!")}
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
	for i, word := range strings.Fields(sc.claims) {
		kind := strings.TrimRight(word, "!")
		dies := kind != word
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

// keys counts the keys of the name that exist, without the fence, which stays.
func (p *run) keys() int64 {
	k := keyspace.New(p.prefix, "", false).Of("n")
	n, err := p.own.Do(context.Background(), p.own.B().Exists().Key(k.Hold, k.Line, k.Waiting, k.Expiries).Build()).AsInt64()
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
	case "beats":
		var live []driver.Claim
		for _, c := range p.claims {
			if c.ID != "" {
				live = append(live, c)
			}
		}
		return p.s.Beat(ctx, live, make([]driver.Standing, len(live)))
	case "leaves":
		all, first := []driver.Claim{}, p.target
		for _, c := range p.claims[first:] {
			if c.ID != "" {
				all = append(all, c)
			}
		}
		out := make([]error, len(all))
		p.s.(driver.Leaver).LeaveAll(ctx, all, out)
		for _, err := range out {
			if err != nil && !errors.Is(err, driver.ErrGone) {
				return err
			}
		}
		return nil
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
	if verb == "leaves" {
		return i >= p.target
	}
	return i == p.target && (verb == "leave" || verb == "evict" || verb == "later")
}
