package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cell"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/election"
	"github.com/pawl-go/pawl/internal/history"
	"github.com/pawl-go/pawl/once"
)

// keys is how many keys of package once are in use at a time. Every few TTLs they are
// others, so that there is work that has not been done.
const keys = 4

// A job is what is known of a key of package once. Guarded by world.mu.
type job struct {
	runs    int
	running int          // runs whose context has not ended
	done    history.Time // when a call returned its result; 0: none did
	result  int
}

// runsOnce runs the work of a key, which must not run beside itself, nor after anybody
// got its result; and with WithHold never twice.
func (l *lane) runsOnce() {
	w, k := l.w, l.r.below(keys)
	held := k%3 == 0 // what becomes of an interrupted run: nobody runs it again
	name := fmt.Sprintf("job %d of %d", k, time.Duration(w.now())/(4*w.ttl))
	work, limit := l.r.between(1, min(w.ttl, time.Minute)), l.r.between(w.ttl/2, 4*w.ttl)
	opts := []once.Option{once.WithKeep(100 * w.work)}
	if held {
		opts = append(opts, once.WithHold())
	}
	own, _ := l.ticket(l.p.ctx)
	ctx, cancel := context.WithTimeout(own, limit)
	defer cancel()
	from := w.now()
	v, err := once.Do(ctx, l.p.client, name, func(ctx context.Context) (int, error) { return l.work(ctx, name, held, work), nil }, opts...)
	l.p.runs(uint64(l.id))
	if l.p.killed() || w.defect == forgetful {
		return
	}
	w.count(func(t *Tally) { t.Recipes++ })
	if err != nil {
		l.judgeRecipe("once", ctx, from, err)
		return
	}
	w.mu.Lock()
	j := w.jobs[name]
	was := j.done
	if was == 0 {
		j.done, j.result = w.now(), v
	}
	same := j.result == v
	w.mu.Unlock()
	if !same {
		w.breach(onceOnly, "client %d got result %d of %q, others %d since %v", l.p.id, v, name, j.result, was)
	}
}

// work is the function that runs once.
func (l *lane) work(ctx context.Context, name string, held bool, d time.Duration) int {
	w := l.w
	w.mu.Lock()
	j := w.jobs[name]
	if j == nil {
		j = &job{}
		w.jobs[name] = j
	}
	j.runs++
	j.running++
	n, beside, done := j.runs, j.running, j.done
	w.mu.Unlock()
	if w.defect != forgetful {
		switch {
		case done != 0:
			w.breach(onceOnly, "client %d runs %q at %v, and its result was returned at %v", l.p.id, name, w.now(), done)
		case held && n > 1:
			w.breach(onceOnly, "client %d runs %q with WithHold for the time %d", l.p.id, name, n)
		case beside > 1 && ctx.Err() == nil && w.defect == sound:
			w.breach(onceOnly, "client %d runs %q at %v beside another run", l.p.id, name, w.now())
		}
	}
	travel(ctx, d)
	w.mu.Lock()
	j.running--
	w.mu.Unlock()
	l.p.runs(uint64(l.id))
	return n
}

// judgeRecipe reports an error without a fault.
func (l *lane) judgeRecipe(what string, ctx context.Context, from history.Time, err error) {
	switch {
	case errors.Is(err, pawl.ErrClosed), ctx.Err() != nil, errors.Is(err, once.ErrUnknownOutcome):
	case !l.w.disturbed(l.p.id, from, l.w.now()):
		l.w.breach(keptHolds, "client %d, %s: %v", l.p.id, what, err)
	}
}

// A counter is what is known of a cell that is only counted up. Guarded by world.mu.
type counter struct {
	sure, maybe int          // updates that succeeded, and those without an answer
	seen        map[int]bool // values that an update returned
}

const cells = 2

// A sum is the value of such a cell.
type sum struct {
	N      int
	Update string // the last call that added to it
}

// stored sees every write that the store took in. A call of Update must be one of them.
func (w *world) stored(key string, value []byte) {
	_, body, _ := strings.Cut(string(value), "\n")
	var s sum
	if !strings.HasPrefix(key, ".pawl/cell/") || json.Unmarshal([]byte(body), &s) != nil {
		return
	}
	w.mu.Lock()
	w.updates[s.Update]++
	n := w.updates[s.Update]
	w.mu.Unlock()
	if n > 1 && w.defect != forgetful {
		w.breach(noLostUpdate, "one update of %q was written %d times", key, n)
	}
}

// counts adds one to a cell.
func (l *lane) counts() {
	w, name := l.w, fmt.Sprint("cell ", l.r.below(cells))
	own, _ := l.ticket(l.p.ctx)
	ctx, cancel := context.WithTimeout(own, l.r.between(w.ttl/2, 4*w.ttl))
	defer cancel()
	from := w.now()
	got, err := cell.Update(ctx, l.p.client, name, func(old sum) (sum, error) {
		return sum{old.N + 1, fmt.Sprintf("%d %d %d", l.p.id, l.id, from)}, nil
	})
	v := got.N
	w.mu.Lock()
	c := w.counters[name]
	if c == nil {
		c = &counter{seen: map[int]bool{}}
		w.counters[name] = c
	}
	twice := err == nil && c.seen[v]
	if err == nil {
		c.sure++
		c.seen[v] = true
	} else if errors.Is(err, pawl.ErrUnknown) {
		c.maybe++
	}
	w.tally.Recipes++
	w.mu.Unlock()
	l.p.runs(uint64(l.id))
	if twice && w.defect != forgetful {
		w.breach(noLostUpdate, "two updates of %q returned %d, the second to client %d", name, v, l.p.id)
	}
	if err != nil && !l.p.killed() {
		l.judgeRecipe("cell", ctx, from, err)
	}
}

// judgeCells compares the cells with what was counted.
func (w *world) judgeCells() {
	if w.defect == forgetful {
		return
	}
	for i := range cells {
		name := fmt.Sprint("cell ", i)
		c := w.counters[name]
		if c == nil {
			continue
		}
		got, _, err := cell.Load[sum](context.Background(), pawl.New(w.nodes[0].mem), name)
		v := got.N
		if err != nil || v < c.sure || v > c.sure+c.maybe {
			w.breach(noLostUpdate, "%q is %d, %v; %d updates succeeded, and %d more may have", name, v, err, c.sure, c.maybe)
		}
	}
}

const electionName = "leader"

// leads campaigns, and leads for a while.
func (l *lane) leads() {
	e := election.New(l.p.client, electionName)
	q := request{names: []string{e.LockName()}, need: 1, limit: 1, fair: true}
	if l.r.chance(30) {
		q.cancel = l.r.between(1, 2*l.w.ttl)
	}
	a, lease := l.take(&q, func(ctx context.Context) (*pawl.Lease, error) {
		leader, err := e.Campaign(ctx, fmt.Sprint("client ", l.p.id))
		if err != nil {
			return nil, err
		}
		return leader.Lease, nil
	})
	if lease == nil {
		l.record(&q, a, nil)
		return
	}
	h := &hold{l: l, q: &q, a: a, lease: lease}
	h.run()
	l.record(&q, h.a, h)
}

// observes follows the election for a while.
func (l *lane) observes() {
	own, _ := l.ticket(l.p.ctx)
	ctx, cancel := context.WithTimeout(own, min(l.r.between(1, 4*l.w.ttl), 2*time.Minute))
	defer cancel()
	var last election.Leader
	high := uint64(0)
	for leader, err := range election.New(l.p.client, electionName).Observe(ctx) {
		switch {
		case err != nil, l.w.defect == forgetful:
		case !leader.Vacant() && !last.Vacant():
			l.w.breach(leaderOrder, "client %d saw no vacancy between %v and %v", l.p.id, last, leader)
		case !leader.Vacant() && leader.Token < high:
			l.w.breach(leaderOrder, "client %d saw token %d after %d", l.p.id, leader.Token, high)
		}
		if err == nil {
			last, high = leader, max(high, leader.Token)
		} else if errors.Is(err, driver.ErrUnsupported) {
			return
		}
	}
	l.p.runs(uint64(l.id))
}
