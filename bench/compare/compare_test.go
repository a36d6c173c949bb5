package compare

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// fixedRounds returns known figures.
type fixedRounds struct {
	figures []float64
	log     *[]string
	name    string
	fail    error
}

func (f *fixedRounds) Close() error { return nil }

func (f *fixedRounds) Round(_ context.Context, length time.Duration) ([]float64, error) {
	if length < time.Second {
		return []float64{0}, nil // the warm-up round, which does not count
	}
	*f.log = append(*f.log, f.name)
	if f.fail != nil {
		return nil, f.fail
	}
	figure := f.figures[0]
	f.figures = f.figures[1:]
	return []float64{figure}, nil
}

func fixedRow(log *[]string, who map[string][]float64, fail map[string]error) Row {
	row := Row{Length: time.Second, Work: Work{Name: "fixed", Does: "nothing", Units: []Unit{{Name: "x/s"}}}}
	for _, name := range []string{"a", "b", "c"} {
		row.Who = append(row.Who, Contender{Name: name})
	}
	row.Begin = func(_ context.Context, c Contender) (Rounds, error) {
		return &fixedRounds{figures: who[c.Name], log: log, name: c.Name, fail: fail[c.Name]}, nil
	}
	return row
}

// fixedLoad returns known loads.
type fixedLoad []float64

func (*fixedLoad) start() {}

func (s *fixedLoad) share() float64 {
	if len(*s) == 0 {
		return 0
	}
	share := (*s)[0]
	*s = (*s)[1:]
	return share
}

func TestADisturbedRoundIsDoneAgain(t *testing.T) {
	t.Parallel()
	var log []string
	row := fixedRow(&log, map[string][]float64{"a": {1, 2, 3, 4, 5, 6}}, nil)
	row.Who = row.Who[:1]
	// The first round succeeds at the third try, the second never.
	r := run(t.Context(), row, 2, &fixedLoad{0.5, 0.2, 0.05, 0.9, 0.3, 0.4})
	if got := r.column("a", 0); !slices.Equal(got, []float64{3, 5}) {
		t.Errorf("figures %v", got)
	}
	if r.Others != 0.3 || !r.Disturbed() {
		t.Errorf("others used %v, disturbed %v", r.Others, r.Disturbed())
	}
}

func TestContendersTakeTurns(t *testing.T) {
	t.Parallel()
	var log []string
	figures := map[string][]float64{"a": {1, 1, 1}, "b": {1, 1, 1}, "c": {1, 1, 1}}
	run(t.Context(), fixedRow(&log, figures, nil), 3, &fixedLoad{})
	if got := strings.Join(log, ""); got != "abcbcacab" {
		t.Errorf("order %s", got)
	}
}

func TestARatioIsTakenRoundByRound(t *testing.T) {
	t.Parallel()
	var log []string
	// The machine is three times slower in the last two rounds.
	figures := map[string][]float64{"a": {30, 33, 10}, "b": {60, 60, 20}, "c": {1, 1, 1}}
	row := fixedRow(&log, figures, nil)
	row.Bounds = []Bound{
		{Who: "a", Than: "b", Factor: 0.5},
		{Who: "a", Than: "b", Factor: 0.51},
		{Who: "b", Factor: 60, AtMost: true},
		{Who: "b", Factor: 59, AtMost: true},
		{Who: "b", Than: "nobody", Factor: 0}, // absent contenders are not compared
	}
	r := run(t.Context(), row, 3, &fixedLoad{})
	if got, ok := r.Ratio("a", "b", 0); !ok || got != 0.5 {
		t.Errorf("ratio %v, %v; want 0.5", got, ok)
	}
	var kept []bool
	for _, v := range r.Verdicts() {
		kept = append(kept, v.Kept)
		if v.Kept == v.Missed() {
			t.Errorf("%+v: kept %v, missed %v", v.Bound, v.Kept, v.Missed())
		}
	}
	if !slices.Equal(kept, []bool{true, false, true, false}) {
		t.Errorf("kept: %v", kept)
	}
}

func TestWhoFailsIsShownAndDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	var log []string
	figures := map[string][]float64{"a": {1234.5, 1234.5}, "c": {0.001234, 0.001234}}
	row := fixedRow(&log, figures, map[string]error{"b": errors.New("out of order")})
	row.Bounds = []Bound{{Who: "a", Than: "b", Factor: 1}, {Who: "b", Than: "a", Factor: 1}}
	r := run(t.Context(), row, 2, &fixedLoad{})
	if v := r.Verdicts(); v[0].Missed() || v[0].Kept || !v[1].Missed() {
		t.Errorf("verdicts %+v", v)
	}
	var table, lines strings.Builder
	r.Table(&table)
	r.Lines(&lines, "redis")
	for _, want := range []string{"| a ", "1230 (1230 to 1230)", "failed: out of order", "0.00123"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("no %q in\n%s", want, table.String())
		}
	}
	if got := strings.Count(lines.String(), "BenchmarkRedis/fixed/a 1 1234.5 x/s\n"); got != 2 {
		t.Errorf("lines:\n%s", lines.String())
	}
}

func TestASectionReplacesTheOneWithItsHeading(t *testing.T) {
	t.Parallel()
	text := []byte("# Results\n\nwords\n\n")
	for _, section := range []string{"## redis\n\nold\n", "## etcd\n\nkept\n", "## redis\n\nnew\n"} {
		text = replaceSection(text, []byte(section))
	}
	want := "# Results\n\nwords\n\n## redis\n\nnew\n\n## etcd\n\nkept\n"
	if string(text) != want {
		t.Errorf("%q, want %q", text, want)
	}
}

func TestNumbersHaveThreeDigits(t *testing.T) {
	t.Parallel()
	for f, want := range map[float64]string{
		0: "0", 280: "280", 1234.5: "1230", 99.96: "100", 10: "10", 2.5: "2.5", 0.001234: "0.00123",
	} {
		if got := number(f); got != want {
			t.Errorf("%v: %s, want %s", f, got, want)
		}
	}
}

func TestOvertakenIsWhoWasPassedByMost(t *testing.T) {
	t.Parallel()
	for want, order := range map[int][]int{0: {0, 1, 2, 3}, 1: {0, 2, 1, 3}, 2: {1, 2, 0, 3}, 3: {3, 2, 1, 0}} {
		if got := mostOvertaken(order); got != want {
			t.Errorf("%v: %d, want %d", order, got, want)
		}
	}
}

func TestSwapsCountWhoWasServedTooEarly(t *testing.T) {
	t.Parallel()
	for want, order := range map[int][]int{0: {0, 1, 2, 3}, 1: {0, 2, 1, 3}, 2: {1, 2, 0, 3}, 3: {3, 2, 1, 0}} {
		if got := outOfOrder(order); got != want {
			t.Errorf("%v: %d, want %d", order, got, want)
		}
	}
}

// mutexLocker is a contender that needs no server.
type mutexLocker struct {
	mu    sync.Mutex // guards locks
	locks map[string]chan struct{}
}

func (m *mutexLocker) Close() error { return nil }

func (m *mutexLocker) Lock(ctx context.Context, name string) (func() error, error) {
	m.mu.Lock()
	lock := m.locks[name]
	if lock == nil {
		lock = make(chan struct{}, 1)
		m.locks[name] = lock
	}
	m.mu.Unlock()
	select {
	case lock <- struct{}{}:
		return func() error { <-lock; return nil }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// The test binary also serves as a child process.
func TestMain(m *testing.M) {
	Child(map[string]Opener{
		"test/mutexes": func(string) func(context.Context) (Locker, error) {
			return func(context.Context) (Locker, error) { return &mutexLocker{locks: map[string]chan struct{}{}}, nil }
		},
		"test/broken": func(string) func(context.Context) (Locker, error) {
			return func(context.Context) (Locker, error) { return nil, errors.New("out of order") }
		},
	})
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise each of them would exit a second late
	os.Exit(m.Run())
}

func TestAProcessThatFailsIsShown(t *testing.T) {
	t.Parallel()
	for who, want := range map[string]string{"broken": "out of order", "nobody": `nobody is called "test/nobody"`} {
		row := Row{Work: Processes(2, "test", "nowhere"), Who: []Contender{{Name: who}}, Length: 10 * time.Millisecond}
		r := Run(t.Context(), Part{}, row, 1)
		if err := r.Failed[who]; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", who, err)
		}
	}
}

// Waits makes it a Queuer; nothing ever waits.
func (q *queue) Waits() <-chan struct{} { return q.waits }

type queue struct {
	*mutexLocker
	waits chan struct{}
}

func (q *queue) Lock(ctx context.Context, name string) (func() error, error) {
	if strings.HasSuffix(name, "wanted") {
		q.waits <- struct{}{}
	}
	return q.mutexLocker.Lock(ctx, name)
}

func TestCrewsComeAndGo(t *testing.T) {
	t.Parallel()
	store := &mutexLocker{locks: map[string]chan struct{}{}}
	open := func(context.Context) (Queuer, error) { return &queue{store, make(chan struct{}, 100)}, nil }
	row := Scale(open, Store{PIDs: []int{os.Getpid()}}, Load{Held: 3}, Load{Held: 300}, Load{Waiting: 30})
	row.Length = 20 * time.Millisecond
	r := run(t.Context(), row, 2, &fixedLoad{})
	for _, c := range row.Who {
		if err := r.Failed[c.Name]; err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
		if n := len(r.Figures[c.Name]); n != 2 || len(r.Figures[c.Name][1]) != len(row.Units) {
			t.Errorf("%s: %d rounds, %v", c.Name, n, r.Figures[c.Name])
		}
	}
	for name, lock := range store.locks {
		if len(lock) > 0 {
			t.Errorf("%s is still held", name)
		}
	}
}

type noCounter struct{}

func (noCounter) Start(context.Context) error       { return nil }
func (noCounter) Stop(context.Context) (int, error) { return 7, nil }

func TestEveryWorkIsDone(t *testing.T) {
	t.Parallel()
	shared := &mutexLocker{locks: map[string]chan struct{}{}}
	who := []Contender{{"mutexes", func(context.Context) (Locker, error) { return shared, nil }}}
	for _, work := range []Work{
		Alone(), Apart(8), Together(8), Handoff(time.Millisecond), Line(7, 0, noCounter{}),
		Latency(), LatencyOver(time.Millisecond), Readers(4, time.Millisecond), Rivals(3), Visitor(4), Processes(3, "test", "nowhere"),
	} {
		t.Run(work.Name, func(t *testing.T) {
			t.Parallel()
			r := run(t.Context(), Row{Work: work, Who: who, Length: 50 * time.Millisecond}, 3, &fixedLoad{})
			if err := r.Failed["mutexes"]; err != nil {
				t.Fatal(err)
			}
			for i, u := range work.Units {
				if got, ok := r.Median("mutexes", i); !ok || got < 0 {
					t.Errorf("%s: %v, %v", u.Name, got, ok)
				}
			}
			if got, _ := r.Median("mutexes", 0); got == 0 {
				t.Errorf("%s is 0", work.Units[0].Name)
			}
		})
	}
}
