package drivertest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/pawl-go/pawl/driver"
)

// randomCases compare an engine step by step with driver.Place.
var randomCases = []lawCase{
	{name: "a random history of a mutex follows Place", law: 2, run: history([][2]int{{1, 1}}),
		why: "Whatever is entered, left, evicted, closed or dies: the holders are those that Place computes from the line."},
	{name: "a random history of readers and writers follows Place", law: 2, needs: needs{shared: true},
		run: history([][2]int{{1, driver.All}, {1, driver.All}, {driver.All, driver.All}}),
		why: "As for a mutex, with claims that share."},
	{name: "a random history of a semaphore follows Place", law: 2, needs: needs{count: true},
		run: history([][2]int{{1, 4}, {2, 4}, {3, 4}, {4, 4}}),
		why: "As for a mutex, with claims of different weight."},
	{name: "a random history of mixed limits follows Place", law: 2, needs: needs{shared: true, count: true},
		run: history([][2]int{{1, 3}, {2, 3}, {1, 1}, {driver.All, driver.All}, {3, 3}}),
		why: "As for a mutex, with exclusive claims of several limits among shared ones of one."},
}

// A model computes the expected line.
type model struct {
	f       *fixture
	sizes   [][2]int
	rand    *rand.Rand
	line    []modelEntry
	crashes int // how many sessions may still crash: each expiry takes real time
	tokens  map[string]uint64
}

type modelEntry struct {
	driver.Entry
	session *session
}

func history(sizes [][2]int) func(*fixture) {
	return func(f *fixture) {
		f.Logf("seed %d", f.seed)
		m := &model{f: f, sizes: sizes, rand: rand.New(rand.NewPCG(f.seed, 0)), crashes: 1, tokens: map[string]uint64{}}
		if f.h.Around != nil {
			m.crashes = 10 // in a synctest bubble time costs nothing
		}
		sessions := []*session{f.open(), f.open(), f.open()}
		for step := range 80 {
			what := m.step(sessions)
			if f.Failed() || !m.check(fmt.Sprintf("step %d, %s (seed %d)", step, what, f.seed)) {
				return
			}
		}
	}
}

// step applies one random operation to the engine and the model.
func (m *model) step(sessions []*session) string {
	s := sessions[m.rand.IntN(len(sessions))]
	n := m.rand.IntN(100)
	switch {
	case len(m.line) == 0 || n < 35 && len(m.line) < 8:
		return m.enter(s, m.f.can.Queue)
	case n < 50:
		return m.enter(s, false)
	case n < 60:
		return m.repeatEnter()
	case n < 90 || m.crashes == 0 && n < 96:
		i := m.rand.IntN(len(m.line))
		m.line[i].session.mustLeave(m.line[i].Claim)
		return m.end("leave", i)
	case n < 96:
		return m.crash()
	}
	i := m.rand.IntN(len(m.line))
	m.f.evict(m.f.entry(m.line[i].Claim))
	return m.end("evict", i)
}

func (m *model) claim(queue bool) driver.Claim {
	size := m.sizes[m.rand.IntN(len(m.sizes))]
	c := m.f.claimOf(size[0], size[1])
	c.Queue = queue
	return c
}

func (m *model) end(how string, i int) string {
	what := fmt.Sprintf("%s of %d (%d of %d)", how, i, m.line[i].Need, m.line[i].Limit)
	m.line = slices.Delete(m.line, i, i+1)
	return what
}

// enter enters a new claim and compares the answer with Place.
func (m *model) enter(s *session, queue bool) string {
	c := m.claim(queue)
	st := s.mustEnter(c)
	m.line = append(m.line, modelEntry{driver.Entry{Claim: c}, s})
	held, ahead, _, _ := driver.Place(m.entries(), c.ID)
	what := fmt.Sprintf("enter %d of %d, queue %v", c.Need, c.Limit, queue)
	if st.Held != held || queue && st.Ahead >= 0 && st.Ahead != ahead {
		m.f.Errorf("%s: %+v, Place says held %v with %d ahead of it in\n%s", what, st, held, ahead, showEntries(m.entries()))
	}
	if !queue && !held {
		m.line = m.line[:len(m.line)-1]
	}
	return what
}

// repeatEnter repeats an Enter, which must not change anything.
func (m *model) repeatEnter() string {
	i := m.rand.IntN(len(m.line))
	x := m.line[i]
	st := x.session.mustEnter(x.Claim)
	if held, _, _, _ := driver.Place(m.entries(), x.ID); st.Held != held {
		m.f.Errorf("Enter repeated for %d: %+v, Place says held %v in\n%s", i, st, held, showEntries(m.entries()))
	}
	return fmt.Sprintf("enter of %d again", i)
}

// crash enters a claim, held or waiting, in a session of its own that then crashes.
func (m *model) crash() string {
	m.crashes--
	s := m.f.openShort()
	c := m.claim(m.f.can.Queue)
	st := s.mustEnter(c)
	s.crash()
	if st.Held || c.Queue {
		m.awaitEnd(c, s)
	}
	return fmt.Sprintf("death of %d of %d", c.Need, c.Limit)
}

func (m *model) awaitEnd(c driver.Claim, s *session) {
	m.f.Helper()
	m.f.eventually(3*s.TTL()+soon, "the end of a dead claim", func() bool {
		return !slices.ContainsFunc(m.f.line(), func(e driver.Entry) bool { return e.ID == c.ID })
	})
}

func (m *model) entries() []driver.Entry {
	line := make([]driver.Entry, len(m.line))
	for i := range m.line {
		line[i] = m.line[i].Entry
	}
	return line
}

// check compares List with the model.
func (m *model) check(when string) bool {
	want, got := m.entries(), m.f.line()
	for i := range want {
		want[i].Held, _, _, _ = driver.Place(want, want[i].ID)
	}
	if !m.f.can.Queue { // without a line, entries have no order
		byID := func(a, b driver.Entry) int { return cmp.Compare(a.ID, b.ID) }
		slices.SortFunc(want, byID)
		slices.SortFunc(got, byID)
	}
	same := slices.EqualFunc(want, got, func(a, b driver.Entry) bool {
		return a.ID == b.ID && a.Try == b.Try && a.Held == b.Held
	})
	if !same {
		m.f.Errorf("%s: the line is\n%s\nand should be\n%s", when, showEntries(got), showEntries(want))
		return false
	}
	return m.checkTokens(when, got)
}

// checkTokens checks that a held claim keeps its token and that no token is given
// twice.
func (m *model) checkTokens(when string, got []driver.Entry) bool {
	if m.f.can.Fencing == driver.None {
		return true
	}
	owner := map[uint64]string{}
	for id, token := range m.tokens {
		owner[token] = id
	}
	for _, e := range got {
		if !e.Held {
			continue
		}
		if token, known := m.tokens[e.ID]; known && token != e.Fence {
			m.f.Errorf("%s: token %d became %d", when, token, e.Fence)
			return false
		}
		if id, used := owner[e.Fence]; used && id != e.ID {
			m.f.Errorf("%s: token %d was given twice", when, e.Fence)
			return false
		}
		m.tokens[e.ID] = e.Fence
	}
	return true
}
