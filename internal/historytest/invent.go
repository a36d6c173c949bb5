// Package historytest invents histories of locks, for tests of what reads them.
package historytest

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/history"
)

// The invented clients and their times.
const (
	TTL     = 500 * time.Millisecond
	clients = 4
	lanes   = 4
	rtt     = 400 * time.Microsecond
)

// names are what the clients lock: two mutexes, a semaphore of 4 and an RWMutex.
var names = []struct {
	name  string
	limit int
}{{"deploy", 1}, {"orders/42", 1}, {"permits", 4}, {"settings", driver.All}}

// Invent returns a history of at least n attempts that keeps all rules, with pauses, kills
// and cut links. If violated is set, then a mutex is granted twice, once, with one token,
// after two thirds of the attempts. The same arguments give the same history.
func Invent(n int, seed uint64, violated bool) *history.History {
	s := &store{
		h: &history.History{TTL: TTL}, random: rand.New(rand.NewPCG(seed, 1)), most: n,
		lines: make([]line, len(names)), clients: clients, violated: violated, token: 1 << 40,
	}
	for client := range clients {
		s.startClient(client, 0)
	}
	s.at(TTL, s.fault)
	for len(s.events) > 0 {
		e := heap.Pop(&s.events).(event)
		s.now = e.at
		e.do()
	}
	s.h.End = history.Time(s.now) + 1
	return s.h
}

// A store grants locks in the order of arrival, in time that is only computed.
type store struct {
	h        *history.History
	random   *rand.Rand
	now      time.Duration
	events   events
	most     int // attempts that are begun
	lines    []line
	clients  int // number of the next one
	alive    []*client
	token    uint64
	writes   int
	violated bool // a violation is still to come
}

// A line has the attempts of one name that hold it and that wait.
type line struct{ holds, waits []*attempt }

type client struct {
	number int
	paused time.Duration // until then it does nothing
	gone   bool
}

type attempt struct {
	index  int // in the history
	line   int
	client *client
	lane   int
	over   bool // it neither holds nor waits
}

func (s *store) startClient(number int, after time.Duration) {
	c := &client{number: number}
	s.alive = append(s.alive, c)
	for lane := range lanes {
		s.at(after+s.some(3*time.Millisecond), func() { s.call(c, lane) })
	}
}

// at does something later.
func (s *store) at(after time.Duration, do func()) {
	heap.Push(&s.events, event{at: s.now + after, order: len(s.h.Attempts)<<20 + s.random.IntN(1<<20), do: do})
}

// of does something of a client later: when it runs again, and never once it is killed.
func (s *store) of(c *client, after time.Duration, do func()) {
	s.at(after, func() {
		switch {
		case c.gone:
		case s.now < c.paused:
			s.of(c, c.paused-s.now, do)
		default:
			do()
		}
	})
}

func (s *store) some(most time.Duration) time.Duration {
	return time.Duration(1 + s.random.Int64N(int64(most)))
}

func (s *store) moment(after time.Duration) history.Time { return history.Time(s.now + after) }

func (s *store) record(a *attempt) *history.Attempt { return &s.h.Attempts[a.index] }

// call begins an attempt.
func (s *store) call(c *client, lane int) {
	if len(s.h.Attempts) >= s.most || c.gone {
		return
	}
	a := &attempt{index: len(s.h.Attempts), line: s.random.IntN(len(names)), client: c, lane: lane}
	n := names[a.line]
	need := 1
	if n.limit == driver.All && s.random.IntN(5) == 0 {
		need = driver.All
	}
	s.h.Attempts = append(s.h.Attempts, history.Attempt{
		Client: c.number, Lane: lane, Name: n.name, Need: need, Limit: n.limit, Fair: true,
		Called: s.moment(1), Try: s.random.IntN(8) == 0,
	})
	l := &s.lines[a.line]
	switch r := s.record(a); {
	case r.Try && (len(l.waits) > 0 || !s.fits(a)):
		s.of(c, rtt, func() { s.end(a, history.Busy, "held by another client") })
		return
	case !r.Try:
		r.Queued = s.moment(rtt)
		if s.random.IntN(10) == 0 {
			s.of(c, rtt+s.some(8*time.Millisecond), func() { s.cancel(a) })
		}
	}
	l.waits = append(l.waits, a)
	s.admit(a.line)
}

// end ends an attempt that does not hold, and begins the lane's next.
func (s *store) end(a *attempt, result history.Result, err string) {
	r := s.record(a)
	r.Result, r.Err, r.Returned = result, err, s.moment(0)
	a.over = true
	s.of(a.client, s.some(6*time.Millisecond), func() { s.call(a.client, a.lane) })
}

func (s *store) cancel(a *attempt) {
	l := &s.lines[a.line]
	at := slices.Index(l.waits, a)
	if at < 0 {
		return
	}
	l.waits = slices.Delete(l.waits, at, at+1)
	s.record(a).Cancelled = s.moment(0)
	s.of(a.client, rtt/2, func() { s.end(a, history.Failed, "context canceled") })
	s.admit(a.line)
}

// fits reports whether a can hold beside those that do.
func (s *store) fits(a *attempt) bool {
	used := s.record(a).Need
	for _, h := range s.lines[a.line].holds {
		used += s.record(h).Need
	}
	return used <= s.record(a).Limit
}

// admit grants the name to those at the head of its line.
func (s *store) admit(line int) {
	l := &s.lines[line]
	for len(l.waits) > 0 {
		a := l.waits[0]
		plant := s.violated && len(s.h.Attempts) > s.most*2/3 && names[line].limit == 1 && len(l.holds) == 1 && l.holds[0].client != a.client && len(s.record(l.holds[0]).Writes) > 0
		if !plant && !s.fits(a) {
			return
		}
		s.token++
		token := s.token
		if plant {
			s.violated, token = false, s.record(l.holds[0]).Token
		}
		l.waits = l.waits[1:]
		l.holds = append(l.holds, a)
		s.of(a.client, rtt/2, func() { s.granted(a, token) })
	}
}

// granted brings a grant to its client.
func (s *store) granted(a *attempt, token uint64) {
	if a.over {
		return
	}
	r := s.record(a)
	r.Result, r.Token, r.Returned, r.Alive = history.Held, token, s.moment(0), s.moment(0)
	if r.Limit == 1 {
		s.of(a.client, 100*time.Microsecond, func() {
			if !a.over {
				s.writes++
				r := s.record(a)
				r.Alive = s.moment(0)
				r.Writes = append(r.Writes, history.Write{Seq: s.writes, At: s.moment(0), Answered: s.moment(1), Accepted: true})
			}
		})
	}
	s.of(a.client, 500*time.Microsecond+s.some(4*time.Millisecond), func() { s.unlock(a) })
}

func (s *store) unlock(a *attempt) {
	if a.over {
		return
	}
	a.over = true
	r := s.record(a)
	r.Alive, r.Unlock, r.Unlocked, r.End = s.moment(0), s.moment(1), s.moment(rtt), history.Released
	s.at(rtt/2, func() { s.release(a) })
	s.of(a.client, rtt+s.some(6*time.Millisecond), func() { s.call(a.client, a.lane) })
}

// release takes the claim of an attempt from the store.
func (s *store) release(a *attempt) {
	l := &s.lines[a.line]
	l.holds = slices.DeleteFunc(l.holds, func(o *attempt) bool { return o == a })
	l.waits = slices.DeleteFunc(l.waits, func(o *attempt) bool { return o == a })
	s.admit(a.line)
}
