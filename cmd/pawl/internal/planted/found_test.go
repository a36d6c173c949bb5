package planted

import (
	"flag"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/internal/history"
)

var (
	only  = flag.String("bug", "", "plant only this bug")
	sound = flag.Int("sound", 4, "loads on the sound engine, at the same time")
)

const (
	strike  = 4 * time.Second  // of faults in one run
	calm    = 10 * time.Second // without faults after them, for what is stuck to show
	limit   = 2 * time.Minute  // until a bug has to be found; most take 5 s, or one calm
	atATime = 16               // bugs that are looked for
)

// judged runs a load with faults once and checks its history.
func judged(t testing.TB, bug string, rest time.Duration) *history.Report {
	server := serve(t, bug)
	l := newLoad(t, server)
	l.faultsFor(strike)
	time.Sleep(rest)
	h := l.finish()
	begun := time.Now()
	r := history.Check(h, history.Promise{Order: true, Fencing: true, Kept: true})
	grants := 0
	for i := range h.Attempts {
		if h.Attempts[i].Result == history.Held {
			grants++
		}
	}
	t.Logf("%q: %d attempts, %d grants, %d faults, %d stalls of %v, checked in %v", bug, len(h.Attempts), grants, len(h.Faults)-l.stalls, l.stalls, l.stalled.Round(time.Millisecond), time.Since(begun).Round(time.Millisecond))
	return r
}

func broken(r *history.Report) (rules []history.Rule) {
	for i := range r.Verdicts {
		if !r.Verdicts[i].Holds() {
			rules = append(rules, r.Verdicts[i].Rule)
		}
	}
	return rules
}

// quick are bugs that show at once, at least one for each rule that finds bugs.
var quick = []string{
	"holder known by its session", "check, then write", "writer beside a reader", "one permit too many",
	"token repeated", "token goes back", "readers share a token",
	"store keeps a claim for half of what it promised", "repeated release ends the next holder",
	"try refused on a free name", "newcomer overtakes the line", "holder is not renewed while another waits",
}

func TestBugsThatShowAtOnceAreFound(t *testing.T) {
	t.Parallel()
	lookFor(t, func(b Bug) bool { return slices.Contains(quick, b.Name) })
}

// TestSoakEveryBugIsFound is for a quiet machine: some bugs need the right moment. The
// self-test of verify looks for all of them too.
func TestSoakEveryBugIsFound(t *testing.T) {
	if os.Getenv("PAWL_SOAK") == "" {
		t.Skip("set PAWL_SOAK to a duration, such as 10m")
	}
	lookFor(t, func(b Bug) bool { return *only == "" || b.Name == *only })
}

// lookFor runs loads on engines with bugs until each is found.
func lookFor(t *testing.T, wanted func(Bug) bool) {
	looked := 0
	defer func() {
		if looked == 0 || *only == "" && looked < len(quick) {
			t.Errorf("looked for %d bugs", looked)
		}
	}()
	slots := make(chan struct{}, atATime)
	var work sync.WaitGroup
	for _, b := range Bugs() {
		if !wanted(b) {
			continue
		}
		looked++
		work.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			rest := time.Duration(0)
			if slices.Contains(b.Rules, history.Progress) || slices.Contains(b.Rules, history.Renewed) {
				rest = calm
			}
			for begun := time.Now(); time.Since(begun) < limit; {
				report := judged(t, b.Name, rest)
				rules := broken(report)
				if slices.ContainsFunc(rules, func(r history.Rule) bool { return slices.Contains(b.Rules, r) }) {
					t.Logf("%q: found after %v by %q", b.Name, time.Since(begun).Round(time.Millisecond), rules)
					return
				}
				rest += rest / 2 // a slow machine needs longer to be sure that nobody could be served
				t.Logf("%q: not found, but %q %v", b.Name, rules, report.Gravest())
			}
			t.Errorf("%q was not found in %v", b.Name, limit)
		})
	}
	work.Wait()
}

// The rules are those that find the bugs, so loads without a bug show that the rules do not
// find what is not there. Whether a fault costs a lease is luck, so loads follow until each
// rule had something to check.
func TestTheSoundEngineKeepsAllRules(t *testing.T) {
	t.Parallel()
	checked := map[history.Rule]int{}
	for begun := time.Now(); time.Since(begun) < limit && !t.Failed(); {
		for _, report := range soundLoads(t, *sound) {
			for _, v := range report.Verdicts {
				checked[v.Rule] += v.Checked
				for _, x := range v.Violations {
					t.Errorf("%s: %s: %s", x.Rule, x.Name, x.Text)
				}
			}
		}
		if !slices.Contains(slices.Collect(maps.Values(checked)), 0) {
			break
		}
	}
	for rule, n := range checked {
		if t.Logf("%s: %d", rule, n); n == 0 {
			t.Errorf("%s: nothing was checked", rule)
		}
	}
}

// soundLoads runs loads without a bug at the same time.
func soundLoads(t *testing.T, n int) []*history.Report {
	reports := make([]*history.Report, n)
	var work sync.WaitGroup
	for i := range reports {
		work.Go(func() { reports[i] = judged(t, "", calm) })
	}
	work.Wait()
	return reports
}
