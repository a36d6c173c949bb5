package drivertest

import (
	"time"

	"github.com/pawl-go/pawl/driver"
)

// tokenCases check tokens.
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

func tokensGrow(f *fixture) {
	last := uint64(0)
	grown := func(how string, st driver.Standing) {
		f.Helper()
		if st.Token <= last {
			f.Errorf("token %d %s follows token %d", st.Token, how, last)
		}
		last = st.Token
	}
	sizes := [][2]int{{1, 1}}
	if f.can.Count {
		sizes = append(sizes, [2]int{3, 3})
	}
	if f.can.Shared {
		sizes = append(sizes, [2]int{driver.All, driver.All})
	}
	a, b := f.open(), f.open()
	for i := range 9 {
		size := sizes[i%len(sizes)]
		c := f.claimOf(size[0], size[1])
		if i%2 == 0 {
			c = withoutQueue(c)
		}
		switch i % 3 {
		case 0:
			grown("after a Leave", a.mustHold(c))
			a.mustLeave(c)
		case 1:
			s := f.open()
			grown("before a session's Close", s.mustHold(c))
			s.close()
		case 2:
			grown("before an eviction", b.mustHold(c))
			f.evict(f.entry(c))
		}
	}
}

func tokenAfterExpiry(f *fixture) {
	a, b := f.openShort(), f.open()
	first := a.mustHold(f.claim())
	a.crash()
	_, second, err := b.acquire(f.ctx, f.claim())
	if err != nil {
		f.Fatalf("taking what has expired: %v", err)
	}
	if second.Token <= first.Token {
		f.Errorf("token %d follows token %d, which expired", second.Token, first.Token)
	}
}

func tokensOfWaiters(f *fixture) {
	a, b, c := f.open(), f.open(), f.open()
	ca, cb, quits, cc := f.claim(), f.claim(), f.claim(), f.claim()
	first := a.mustHold(ca)
	waitB := b.mustWait(cb)
	a.mustWait(quits)
	waitC := c.mustWait(cc)
	b.mustNotHold(f.claim())
	a.mustLeave(quits)
	a.mustLeave(ca)
	second := b.mustGetTurn(cb, waitB)
	b.mustLeave(cb)
	third := c.mustGetTurn(cc, waitC)
	if !(first.Token < second.Token && second.Token < third.Token) {
		f.Errorf("tokens in the order of holding: %d, %d, %d", first.Token, second.Token, third.Token)
	}
}

func tokenStays(f *fixture) {
	a := f.open()
	c := f.claim()
	want := a.mustHold(c).Token
	expect := func(call string, got uint64) {
		f.Helper()
		if got != want {
			f.Errorf("token %d became %d in %s", want, got, call)
		}
	}
	for range 2 {
		expect("a repeated Enter", a.mustHold(c).Token)
		out := a.mustBeat(c)
		if !out[0].Held {
			f.Errorf("Beat says %+v of a claim that is held", out[0])
		}
		expect("Beat", out[0].Token)
		if f.can.Queue {
			expect("Await", a.mustGetTurn(c, driver.Standing{}).Token)
		}
		expect("List", f.entry(c).Fence)
		time.Sleep(2 * time.Millisecond) // a token taken from a clock would differ by now
	}
}

// holdAround holds before, then all of within at the same time, then after, and
// compares the tokens.
func (f *fixture) holdAround(before driver.Claim, within []driver.Claim, after driver.Claim) {
	f.Helper()
	a, b := f.open(), f.open()
	low := a.mustHold(before).Token
	a.mustLeave(before)
	seen := map[uint64]bool{}
	var tokens []uint64
	for i, c := range within {
		s := a
		if i%2 == 1 {
			s = b
		}
		token := s.mustHold(c).Token
		if seen[token] {
			f.Errorf("token %d was given twice", token)
		}
		seen[token], tokens = true, append(tokens, token)
		if token <= low {
			f.Errorf("token %d is not after %d, which an exclusive claim had before", token, low)
		}
	}
	for i, c := range within {
		s := a
		if i%2 == 1 {
			s = b
		}
		s.mustLeave(c)
	}
	high := b.mustHold(after).Token
	for _, token := range tokens {
		if token >= high {
			f.Errorf("token %d is not before %d, which an exclusive claim had after", token, high)
		}
	}
}

func tokensOfReaders(f *fixture) {
	f.holdAround(f.writer(), []driver.Claim{f.reader(), f.reader(), withoutQueue(f.reader()), f.reader()}, f.writer())
}

func tokensOfUnits(f *fixture) {
	units := []driver.Claim{f.claimOf(1, 5), f.claimOf(1, 5), f.claimOf(2, 5), withoutQueue(f.claimOf(1, 5))}
	f.holdAround(f.claimOf(1, 1), units, f.claimOf(5, 5))
}

func tokensPerName(f *fixture) {
	a := f.open()
	last := map[string]uint64{}
	for i := range 12 {
		c := withName(f.claim(), f.name+"/"+string(rune('a'+i%3)))
		token := a.mustHold(c).Token
		if token <= last[c.Name] {
			f.Errorf("%q: token %d follows %d", c.Name, token, last[c.Name])
		}
		last[c.Name] = token
		a.mustLeave(c)
	}
}
