package drivertest

import (
	"time"

	"github.com/pawl-go/pawl/driver"
)

// tokenCases are about the numbers that order grants.
var tokenCases = []lawCase{
	{name: "exclusive tokens grow in the order of holding", law: 3, needs: needs{fencing: true}, run: tokensGrow,
		why: "However a hold ends (left, closed, evicted), the next has a larger token, whoever it is and whichever kind."},
	{name: "an expired hold's successor has a larger token", law: 3, needs: needs{fencing: true}, run: tokenAfterExpiry,
		why: "This is what tokens are for: the holder that slept through its expiry comes back with the smaller one."},
	{name: "a waiter's token is larger than that of those who held before it", law: 3, needs: needs{queue: true, fencing: true}, run: tokensOfWaiters,
		why: "Tokens may be minted on arrival or on holding, but they follow the order of holding, also past those who only tried or gave up."},
	{name: "re-entry and renewal do not change a token", law: 3, needs: needs{fencing: true}, run: tokenStays,
		why: "Enter again, Beat, Await and List all show the token that was granted."},
	{name: "readers' tokens lie between those of the writers around them", law: 3, needs: needs{shared: true, fencing: true}, run: tokensOfReaders,
		why: "A reader that slept must be told from one that came after a writer, and two readers from each other."},
	{name: "units' tokens lie between those of the exclusive claims around them", law: 3, needs: needs{count: true, fencing: true}, run: tokensOfUnits,
		why: "Five units held at once have five tokens, all after the mutex before and before the one after."},
	{name: "tokens of different names do not repeat for one name", law: 3, needs: needs{fencing: true}, run: tokensPerName,
		why: "A name that was left for a while and is taken again goes on where it was: nothing is counted from the start."},
}

func tokensGrow(s *stage) {
	last := uint64(0)
	grown := func(how string, st driver.Standing) {
		s.Helper()
		if st.Token <= last {
			s.Errorf("token %d %s follows token %d", st.Token, how, last)
		}
		last = st.Token
	}
	sizes := [][2]int{{1, 1}}
	if s.can.Count {
		sizes = append(sizes, [2]int{3, 3})
	}
	if s.can.Shared {
		sizes = append(sizes, [2]int{driver.All, driver.All})
	}
	a, b := s.join(), s.join()
	for i := range 9 {
		size := sizes[i%len(sizes)]
		c := s.claimOf(size[0], size[1])
		if i%2 == 0 {
			c = tries(c)
		}
		switch i % 3 {
		case 0:
			grown("after a Leave", a.hold(c))
			a.leave(c)
		case 1:
			p := s.join()
			grown("before a session's Close", p.hold(c))
			p.shut()
		case 2:
			grown("before an eviction", b.hold(c))
			s.evict(s.entry(c))
		}
	}
}

func tokenAfterExpiry(s *stage) {
	a, b := s.joinBriefly(), s.join()
	first := a.hold(s.claim())
	a.die()
	_, second, err := b.take(s.ctx, s.claim())
	if err != nil {
		s.Fatalf("taking what has expired: %v", err)
	}
	if second.Token <= first.Token {
		s.Errorf("token %d follows token %d, which expired", second.Token, first.Token)
	}
}

func tokensOfWaiters(s *stage) {
	a, b, c := s.join(), s.join(), s.join()
	ca, cb, quits, cc := s.claim(), s.claim(), s.claim(), s.claim()
	first := a.hold(ca)
	waitB := b.stand(cb)
	a.stand(quits)
	waitC := c.stand(cc)
	b.denied(s.claim())
	a.leave(quits)
	a.leave(ca)
	second := b.turn(cb, waitB)
	b.leave(cb)
	third := c.turn(cc, waitC)
	if !(first.Token < second.Token && second.Token < third.Token) {
		s.Errorf("tokens in the order of holding: %d, %d, %d", first.Token, second.Token, third.Token)
	}
}

func tokenStays(s *stage) {
	a := s.join()
	c := s.claim()
	want := a.hold(c).Token
	expect := func(call string, got uint64) {
		s.Helper()
		if got != want {
			s.Errorf("token %d became %d in %s", want, got, call)
		}
	}
	for range 2 {
		expect("a repeated Enter", a.hold(c).Token)
		out := a.beat(c)
		if !out[0].Held {
			s.Errorf("Beat says %+v of a claim that is held", out[0])
		}
		expect("Beat", out[0].Token)
		if s.can.Queue {
			expect("Await", a.turn(c, driver.Standing{}).Token)
		}
		expect("List", s.entry(c).Fence)
		time.Sleep(2 * time.Millisecond) // a token made of a clock would have moved on
	}
}

// between holds before, then all of within at once, then after, and compares.
func (s *stage) between(before driver.Claim, within []driver.Claim, after driver.Claim) {
	s.Helper()
	a, b := s.join(), s.join()
	low := a.hold(before).Token
	a.leave(before)
	seen := map[uint64]bool{}
	var tokens []uint64
	for i, c := range within {
		p := a
		if i%2 == 1 {
			p = b
		}
		token := p.hold(c).Token
		if seen[token] {
			s.Errorf("token %d was given twice", token)
		}
		seen[token], tokens = true, append(tokens, token)
		if token <= low {
			s.Errorf("token %d is not after %d, which an exclusive claim had before", token, low)
		}
	}
	for i, c := range within {
		p := a
		if i%2 == 1 {
			p = b
		}
		p.leave(c)
	}
	high := b.hold(after).Token
	for _, token := range tokens {
		if token >= high {
			s.Errorf("token %d is not before %d, which an exclusive claim had after", token, high)
		}
	}
}

func tokensOfReaders(s *stage) {
	s.between(s.writer(), []driver.Claim{s.reader(), s.reader(), tries(s.reader()), s.reader()}, s.writer())
}

func tokensOfUnits(s *stage) {
	units := []driver.Claim{s.claimOf(1, 5), s.claimOf(1, 5), s.claimOf(2, 5), tries(s.claimOf(1, 5))}
	s.between(s.claimOf(1, 1), units, s.claimOf(5, 5))
}

func tokensPerName(s *stage) {
	a := s.join()
	last := map[string]uint64{}
	for i := range 12 {
		c := named(s.claim(), s.name+"/"+string(rune('a'+i%3)))
		token := a.hold(c).Token
		if token <= last[c.Name] {
			s.Errorf("%q: token %d follows %d", c.Name, token, last[c.Name])
		}
		last[c.Name] = token
		a.leave(c)
	}
}
