package drivertest

import (
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// listCases are about what operators see.
var listCases = []lawCase{
	{name: "List shows the claim that was made", law: 10, run: listFields,
		why: "An operator decides by what List shows, and Evict compares with it: every field is the claim's own."},
	{name: "List shows the line in its order", law: 2, needs: needs{queue: true}, run: listOrder,
		why: "Holders first, then waiters as they came, each line in one piece."},
	{name: "List yields exactly the names with the prefix", law: 13, run: listPrefix,
		why: "A prefix is not a pattern: %, _, * and [ stand for themselves, and case counts."},
	{name: "Line shows exactly the claims of its name", law: 13, run: lineOfName,
		why: "The core decides by it what to end: every claim of the name as List shows it, in order, and none of a name that only looks alike."},
	{name: "List can be left early", law: 9, run: listBreak,
		why: "A caller that stops after the first entry must not leave a cursor or a goroutine behind."},
	{name: "Left and Since are told by the engine's clock", law: 8, run: listTimes,
		why: "Left shrinks and never exceeds the TTL, Since grows; both from any client's view."},
}

func listFields(s *stage) {
	a := s.join()
	c := s.claim()
	c.Note = `ana@ci-7 "50%" — who & why`
	st := a.hold(c)
	got := s.line()
	if len(got) != 1 {
		s.Fatalf("%d claims are listed, one holds", len(got))
	}
	e := got[0]
	if e.ID != c.ID || e.Try != c.Try || e.Name != c.Name || e.Need != c.Need || e.Limit != c.Limit || e.Note != c.Note {
		s.Errorf("List shows %+v of %+v", e.Claim, c)
	}
	if e.Session != a.id {
		s.Errorf("List shows session %q, it was opened as %q", e.Session, a.id)
	}
	if !e.Held || e.Fence != st.Token || e.Foreign {
		s.Errorf("List shows %+v of a hold with token %d", e, st.Token)
	}
	for _, size := range [][2]int{{2, 5}, {1, driver.All}} {
		if size[1] == 5 && !s.can.Count || size[1] == driver.All && !s.can.Shared {
			continue
		}
		part := named(s.claimOf(size[0], size[1]), s.name+"/part")
		a.hold(part)
		if e := s.entry(part); e.Need != part.Need || e.Limit != part.Limit || !e.Held {
			s.Errorf("List shows %+v of a hold of %d of %d", e, part.Need, part.Limit)
		}
		a.leave(part)
	}
}

func listOrder(s *stage) {
	var want [2][]driver.Claim
	for i := range 5 {
		for j := range 2 {
			c := named(s.claim(), s.name+"/"+string(rune('a'+j)))
			p := s.join()
			if i == 0 {
				p.hold(c)
			} else {
				p.stand(c)
			}
			want[j] = append(want[j], c)
		}
	}
	all := s.line()
	if len(all) != 10 {
		s.Fatalf("%d of 10 claims are listed", len(all))
	}
	for _, half := range [][]driver.Entry{all[:5], all[5:]} {
		line := want[0]
		if half[0].Name != line[0].Name {
			line = want[1]
		}
		for i, e := range half {
			if e.ID != line[i].ID || e.Name != line[i].Name || e.Held != (i == 0) {
				s.Fatalf("the line is not in its order:\n%s\nit should be\n%s", showEntries(half), showClaims(line))
			}
		}
	}
}

func listPrefix(s *stage) {
	a := s.join()
	tails := []string{"", "/", "/x", "%", "_", "*", "?", "[a]", `\`, "ab", "AB", "aB", "é"}
	var all []string
	for _, tail := range tails {
		c := named(s.claim(), s.name+tail)
		a.hold(c)
		all = append(all, c.Name)
	}
	for _, tail := range append(tails, "a", "A", "/y", "__", "%%") {
		prefix := s.name + tail
		var want, got []string
		for _, name := range all {
			if len(name) >= len(prefix) && name[:len(prefix)] == prefix {
				want = append(want, name)
			}
		}
		for _, e := range s.list(prefix) {
			got = append(got, e.Name)
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			s.Errorf("List(%q) shows %q, not %q", prefix, got, want)
		}
	}
	everything := 0
	for _, e := range s.list("") {
		if slices.Contains(all, e.Name) {
			everything++
		}
	}
	if everything != len(all) {
		s.Errorf(`List("") shows %d of %d names`, everything, len(all))
	}
}

func lineOfName(s *stage) {
	a, b := s.join(), s.join()
	names := nasty(s.letters())
	want := map[string][]driver.Claim{}
	for _, name := range names {
		c := named(s.claim(), name)
		a.hold(c)
		want[name] = append(want[name], c)
		if s.can.Queue {
			for range 2 {
				c := named(s.claim(), name)
				b.stand(c)
				want[name] = append(want[name], c)
			}
		}
	}
	for _, name := range names {
		line := s.lineOf(name)
		if len(line) != len(want[name]) {
			s.Errorf("Line(%q) shows %d claims of %d:\n%s", name, len(line), len(want[name]), showEntries(line))
			continue
		}
		for i, e := range line {
			c := want[name][i]
			if e.ID != c.ID || e.Try != c.Try || e.Name != name || e.Note != c.Note || e.Held != (i == 0) || e.Held != (e.Fence > 0) && s.can.Fencing != driver.None {
				s.Errorf("Line(%q) shows %+v at place %d, where %+v is", name, e, i, c)
			}
		}
		listed := slices.DeleteFunc(s.list(name), func(e driver.Entry) bool { return e.Name != name })
		same := func(x, y driver.Entry) bool {
			return x.Claim == y.Claim && x.Session == y.Session && x.Held == y.Held && x.Fence == y.Fence && x.Foreign == y.Foreign
		}
		if !slices.EqualFunc(line, listed, same) {
			s.Errorf("Line(%q) shows\n%s\nand List\n%s", name, showEntries(line), showEntries(listed))
		}
	}
	if line := s.lineOf(s.letters() + "/nobody"); len(line) != 0 {
		s.Errorf("Line of a name that nobody has asked for shows\n%s", showEntries(line))
	}
	for _, name := range names {
		for i := range want[name] {
			c := want[name][len(want[name])-1-i]
			p := b
			if c == want[name][0] {
				p = a
			}
			p.leave(c)
		}
	}
}

func listBreak(s *stage) {
	a := s.join()
	for i := range 5 {
		a.hold(named(s.claim(), s.name+string(rune('a'+i))))
	}
	for range 20 {
		n := 0
		for _, err := range s.engine.List(s.ctx, s.name) {
			if err != nil {
				s.Fatalf("List: %v", err)
			}
			n++
			break
		}
		if n != 1 {
			s.Fatalf("List yielded %d entries before it was left", n)
		}
	}
	a.leave(named(driver.Claim{ID: s.line()[0].ID, Try: 1, Need: 1, Limit: 1}, s.line()[0].Name))
	if n := len(s.line()); n != 4 {
		s.Errorf("%d claims are listed, 4 hold", n)
	}
}

// listTimes allows a tenth of the TTL for clocks that tick in whole steps.
func listTimes(s *stage) {
	a := s.join()
	c := s.claim()
	before := time.Now()
	a.hold(c)
	first := s.entry(c)
	time.Sleep(100 * time.Millisecond)
	second := s.entry(c)
	slack := a.TTL() / 10
	for _, e := range []driver.Entry{first, second} {
		if e.Left < 0 || e.Left > a.TTL()+slack {
			s.Errorf("Left is %v with a TTL of %v", e.Left, a.TTL())
		}
		if age := time.Since(before); e.Since < 0 || e.Since > age+slack {
			s.Errorf("Since is %v of a claim made at most %v ago", e.Since, age)
		}
	}
	if first.Left > 0 && second.Left > first.Left {
		s.Errorf("Left grew from %v to %v without a beat", first.Left, second.Left)
	}
	if second.Since < first.Since {
		s.Errorf("Since shrank from %v to %v", first.Since, second.Since)
	}
}
