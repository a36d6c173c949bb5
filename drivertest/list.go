package drivertest

import (
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// listCases check what operators see.
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

func listFields(f *fixture) {
	a := f.open()
	c := f.claim()
	c.Note = `ana@ci-7 "50%" — who & why`
	st := a.mustHold(c)
	got := f.line()
	if len(got) != 1 {
		f.Fatalf("%d claims are listed, one holds", len(got))
	}
	e := got[0]
	if e.ID != c.ID || e.Try != c.Try || e.Name != c.Name || e.Need != c.Need || e.Limit != c.Limit || e.Note != c.Note {
		f.Errorf("List shows %+v of %+v", e.Claim, c)
	}
	if e.Session != a.id {
		f.Errorf("List shows session %q, it was opened as %q", e.Session, a.id)
	}
	if !e.Held || e.Fence != st.Token || e.Foreign {
		f.Errorf("List shows %+v of a hold with token %d", e, st.Token)
	}
	for _, size := range [][2]int{{2, 5}, {1, driver.All}} {
		if size[1] == 5 && !f.can.Count || size[1] == driver.All && !f.can.Shared {
			continue
		}
		part := withName(f.claimOf(size[0], size[1]), f.name+"/part")
		a.mustHold(part)
		if e := f.entry(part); e.Need != part.Need || e.Limit != part.Limit || !e.Held {
			f.Errorf("List shows %+v of a hold of %d of %d", e, part.Need, part.Limit)
		}
		a.mustLeave(part)
	}
}

func listOrder(f *fixture) {
	var want [2][]driver.Claim
	for i := range 5 {
		for j := range 2 {
			c := withName(f.claim(), f.name+"/"+string(rune('a'+j)))
			s := f.open()
			if i == 0 {
				s.mustHold(c)
			} else {
				s.mustWait(c)
			}
			want[j] = append(want[j], c)
		}
	}
	all := f.line()
	if len(all) != 10 {
		f.Fatalf("%d of 10 claims are listed", len(all))
	}
	for _, half := range [][]driver.Entry{all[:5], all[5:]} {
		line := want[0]
		if half[0].Name != line[0].Name {
			line = want[1]
		}
		for i, e := range half {
			if e.ID != line[i].ID || e.Name != line[i].Name || e.Held != (i == 0) {
				f.Fatalf("the line is not in its order:\n%s\nit should be\n%s", showEntries(half), showClaims(line))
			}
		}
	}
}

func listPrefix(f *fixture) {
	a := f.open()
	tails := []string{"", "/", "/x", "%", "_", "*", "?", "[a]", `\`, "ab", "AB", "aB", "é"}
	var all []string
	for _, tail := range tails {
		c := withName(f.claim(), f.name+tail)
		a.mustHold(c)
		all = append(all, c.Name)
	}
	for _, tail := range append(tails, "a", "A", "/y", "__", "%%") {
		prefix := f.name + tail
		var want, got []string
		for _, name := range all {
			if len(name) >= len(prefix) && name[:len(prefix)] == prefix {
				want = append(want, name)
			}
		}
		for _, e := range f.list(prefix) {
			got = append(got, e.Name)
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			f.Errorf("List(%q) shows %q, not %q", prefix, got, want)
		}
	}
	everything := 0
	for _, e := range f.list("") {
		if slices.Contains(all, e.Name) {
			everything++
		}
	}
	if everything != len(all) {
		f.Errorf(`List("") shows %d of %d names`, everything, len(all))
	}
}

func lineOfName(f *fixture) {
	a, b := f.open(), f.open()
	names := similarNames(f.uniqueWord())
	want := map[string][]driver.Claim{}
	for _, name := range names {
		c := withName(f.claim(), name)
		a.mustHold(c)
		want[name] = append(want[name], c)
		if f.can.Queue {
			for range 2 {
				c := withName(f.claim(), name)
				b.mustWait(c)
				want[name] = append(want[name], c)
			}
		}
	}
	for _, name := range names {
		line := f.lineOf(name)
		if len(line) != len(want[name]) {
			f.Errorf("Line(%q) shows %d claims of %d:\n%s", name, len(line), len(want[name]), showEntries(line))
			continue
		}
		for i, e := range line {
			c := want[name][i]
			if e.ID != c.ID || e.Try != c.Try || e.Name != name || e.Note != c.Note || e.Held != (i == 0) || e.Held != (e.Fence > 0) && f.can.Fencing != driver.None {
				f.Errorf("Line(%q) shows %+v at place %d, where %+v is", name, e, i, c)
			}
		}
		listed := slices.DeleteFunc(f.list(name), func(e driver.Entry) bool { return e.Name != name })
		same := func(x, y driver.Entry) bool {
			return x.Claim == y.Claim && x.Session == y.Session && x.Held == y.Held && x.Fence == y.Fence && x.Foreign == y.Foreign
		}
		if !slices.EqualFunc(line, listed, same) {
			f.Errorf("Line(%q) shows\n%s\nand List\n%s", name, showEntries(line), showEntries(listed))
		}
	}
	if line := f.lineOf(f.uniqueWord() + "/nobody"); len(line) != 0 {
		f.Errorf("Line of a name that nobody has asked for shows\n%s", showEntries(line))
	}
	for _, name := range names {
		for i := range want[name] {
			c := want[name][len(want[name])-1-i]
			s := b
			if c == want[name][0] {
				s = a
			}
			s.mustLeave(c)
		}
	}
}

func listBreak(f *fixture) {
	a := f.open()
	for i := range 5 {
		a.mustHold(withName(f.claim(), f.name+string(rune('a'+i))))
	}
	for range 20 {
		n := 0
		for _, err := range f.engine.List(f.ctx, f.name) {
			if err != nil {
				f.Fatalf("List: %v", err)
			}
			n++
			break
		}
		if n != 1 {
			f.Fatalf("List yielded %d entries before it was left", n)
		}
	}
	a.mustLeave(withName(driver.Claim{ID: f.line()[0].ID, Try: 1, Need: 1, Limit: 1}, f.line()[0].Name))
	if n := len(f.line()); n != 4 {
		f.Errorf("%d claims are listed, 4 hold", n)
	}
}

// listTimes tolerates a tenth of the TTL, for clocks with coarse ticks.
func listTimes(f *fixture) {
	a := f.open()
	c := f.claim()
	before := time.Now()
	a.mustHold(c)
	first := f.entry(c)
	time.Sleep(100 * time.Millisecond)
	second := f.entry(c)
	slack := a.TTL() / 10
	for _, e := range []driver.Entry{first, second} {
		if e.Left < 0 || e.Left > a.TTL()+slack {
			f.Errorf("Left is %v with a TTL of %v", e.Left, a.TTL())
		}
		if age := time.Since(before); e.Since < 0 || e.Since > age+slack {
			f.Errorf("Since is %v of a claim made at most %v ago", e.Since, age)
		}
	}
	if first.Left > 0 && second.Left > first.Left {
		f.Errorf("Left grew from %v to %v without a beat", first.Left, second.Left)
	}
	if second.Since < first.Since {
		f.Errorf("Since shrank from %v to %v", first.Since, second.Since)
	}
}
