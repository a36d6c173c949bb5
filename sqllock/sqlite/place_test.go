package sqlite

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// setClock is a clock that a test sets.
type setClock struct {
	micros   atomic.Int64
	walls    atomic.Int64
	id, name string
}

// withClock has an engine read c. The wall clock stands still unless it is set: tokens
// must grow without its help.
func withClock(c *setClock) Option {
	return func(o *options) {
		o.clock = clock{now: c.micros.Load, wall: c.walls.Load, boot: c.id, namespace: c.name}
	}
}

// A model is one line kept by driver.Place.
type model struct {
	line  []driver.Entry
	until map[string]int64
}

func (m *model) find(id string) int {
	return slices.IndexFunc(m.line, func(e driver.Entry) bool { return e.ID == id })
}

func (m *model) end(id string) bool {
	i := m.find(id)
	if i >= 0 {
		m.line = slices.Delete(m.line, i, i+1)
	}
	return i >= 0
}

func (m *model) expire(now int64) {
	m.line = slices.DeleteFunc(m.line, func(e driver.Entry) bool { return m.until[e.ID] <= now })
}

func (m *model) String() string {
	var out []string
	for _, e := range m.line {
		held, _, _, _ := driver.Place(m.line, e.ID)
		out = append(out, fmt.Sprintf("%s:%d/%d held=%v", e.ID, e.Need, e.Limit, held))
	}
	return fmt.Sprint(out)
}

// enter says what an Enter of c must answer, and enters it.
func (m *model) enter(c driver.Claim, until int64) (held bool, ahead int, err error) {
	if m.find(c.ID) < 0 {
		for _, o := range m.line {
			if !c.Exclusive() && !o.Exclusive() && o.Limit != c.Limit {
				return false, 0, driver.ErrLimit
			}
		}
		m.line = append(m.line, driver.Entry{Claim: c})
	}
	m.until[c.ID] = until
	held, ahead, _, _ = driver.Place(m.line, c.ID)
	if !held && !c.Queue {
		m.end(c.ID)
	}
	return held, ahead, nil
}

func TestAdvancingALineAgreesWithPlace(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	ck := &setClock{id: "boot", name: "space"}
	ck.micros.Store(1)
	e := openFile(t, filepath.Join(t.TempDir(), "pawl.db"), withClock(ck))
	const ttl = 1000 * time.Microsecond
	s, err := e.Open(t.Context(), driver.SessionOptions{ID: benchID, TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	histories := 40
	if testing.Short() {
		histories = 10
	}
	for h := range histories {
		p := &play{t: t, e: e, s: s, ck: ck, rnd: rnd, ttl: ttl.Microseconds(), name: fmt.Sprintf("line/%d", h),
			m: &model{until: map[string]int64{}}}
		for range 40 {
			p.act()
			p.compare()
		}
	}
}

// A play is one random history on one name.
type play struct {
	t    *testing.T
	e    *Engine
	s    driver.Session
	ck   *setClock
	rnd  *rand.Rand
	ttl  int64
	name string
	m    *model
	all  []driver.Claim
	log  []string
}

func (p *play) claim() driver.Claim {
	kinds := [][2]int{{1, 1}, {3, 3}, {1, 3}, {2, 3}, {1, 3}, {1, 4}, {1, driver.All}, {1, driver.All}, {driver.All, driver.All}}
	k := kinds[p.rnd.IntN(len(kinds))]
	return driver.Claim{ID: fmt.Sprintf("%s#%02d", p.name, len(p.all)), Try: 1, Name: p.name, Need: k[0], Limit: k[1], Queue: p.rnd.IntN(3) > 0}
}

func (p *play) act() {
	now := p.ck.micros.Load()
	var c driver.Claim
	if len(p.all) > 0 {
		c = p.all[p.rnd.IntN(len(p.all))]
	}
	switch n := p.rnd.IntN(10); {
	case len(p.all) == 0 || n < 4:
		c = p.claim()
		p.all = append(p.all, c)
		p.enter(c)
	case n == 4 && p.m.find(c.ID) >= 0:
		p.enter(c) // again
	case n < 8:
		p.log = append(p.log, "leave "+c.ID)
		want := p.m.end(c.ID)
		if err := p.s.Leave(p.t.Context(), c); (err == nil) != want || (err != nil && !errors.Is(err, driver.ErrGone)) {
			p.fail("Leave %s: %v, was there: %v", c.ID, err, want)
		}
	case n == 8:
		p.log = append(p.log, "beat "+c.ID)
		out := make([]driver.Standing, 1)
		if err := p.s.Beat(p.t.Context(), []driver.Claim{c}, out); err != nil {
			p.fail("Beat: %v", err)
		}
		if known := p.m.find(c.ID) >= 0; known == out[0].Gone {
			p.fail("Beat %s: %+v, in line: %v", c.ID, out[0], known)
		} else if known {
			p.m.until[c.ID] = now + p.ttl
		}
	default:
		p.log = append(p.log, "time")
		p.ck.micros.Add(p.rnd.Int64N(p.ttl))
		p.m.expire(p.ck.micros.Load())
		// No waiter looks here; an Evict of an unknown claim advances the line.
		if err := p.e.Evict(p.t.Context(), driver.Entry{Claim: driver.Claim{ID: "nobody", Name: p.name}}); !errors.Is(err, driver.ErrGone) {
			p.fail("Evict of an unknown claim: %v", err)
		}
	}
}

func (p *play) enter(c driver.Claim) {
	p.log = append(p.log, fmt.Sprintf("enter %s %d/%d queue=%v", c.ID, c.Need, c.Limit, c.Queue))
	held, ahead, wantErr := p.m.enter(c, p.ck.micros.Load()+p.ttl)
	st, err := p.s.Enter(p.t.Context(), c)
	if !errors.Is(err, wantErr) {
		p.fail("Enter %s: %v, not %v", c.ID, err, wantErr)
	}
	if err == nil && (st.Held != held || st.Ahead != ahead) {
		p.fail("Enter %s: held %v with %d ahead, Place says %v with %d", c.ID, st.Held, st.Ahead, held, ahead)
	}
}

// compare holds the file's line against the model's, and tokens against order.
func (p *play) compare() {
	var got []driver.Entry
	for x, err := range p.e.List(p.t.Context(), p.name) {
		if err != nil {
			p.fail("List: %v", err)
		}
		if x.Name == p.name {
			got = append(got, x)
		}
	}
	if len(got) != len(p.m.line) {
		p.fail("%d in line: %+v", len(got), got)
	}
	last := uint64(0)
	for i, want := range p.m.line {
		held, _, _, _ := driver.Place(p.m.line, want.ID)
		if got[i].ID != want.ID || got[i].Held != held {
			p.fail("at %d stands %s, held %v; Place says %s, held %v", i, got[i].ID, got[i].Held, want.ID, held)
		}
		if held && got[i].Fence <= last || !held && got[i].Fence != 0 {
			p.fail("token %d at %d follows %d", got[i].Fence, i, last)
		}
		last = max(last, got[i].Fence)
	}
}

func (p *play) fail(format string, args ...any) {
	p.t.Helper()
	p.t.Fatalf("%s\nmodel: %v\nhistory: %v", fmt.Sprintf(format, args...), p.m, p.log)
}
