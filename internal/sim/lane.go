package sim

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/history"
)

// A lane is one goroutine of a process.
type lane struct {
	p        *process
	w        *world
	id       int
	r        *source
	attempts []history.Attempt
}

func (p *process) startLane(id int, work func(*lane)) {
	l := &lane{p: p, w: p.w, id: id, r: newSource(p.w.seed, uint64(p.id), uint64(id), text("lane"))}
	p.w.mu.Lock()
	p.lanes = append(p.lanes, l)
	p.w.mu.Unlock()
	p.all.Go(func() {
		time.Sleep(l.r.between(1, p.w.ttl/10))
		for !p.gone() {
			work(l)
			l.think()
		}
	})
}

// think waits between two operations: mostly shortly, so that there is contention.
func (l *lane) think() {
	longest := l.w.ttl / 10
	switch n := l.r.below(10); {
	case n < 3:
		longest = 10 * time.Millisecond
	case n == 9:
		longest = 3 * l.w.ttl
	}
	if l.w.sparse && l.r.chance(70) {
		longest = 10 * l.w.ttl
	}
	l.sleep(l.r.between(1, longest))
}

// sleep returns after d, when the process runs; earlier if it was killed.
func (l *lane) sleep(d time.Duration) {
	travel(l.p.ctx, d)
	l.p.runs(uint64(l.id))
}

const permits = 3

// A request is what one acquire asks for.
type request struct {
	names    []string
	need     int
	limit    int
	try      bool
	fair     bool
	maxHold  time.Duration
	fixed    bool
	reentry  bool
	all      bool          // by LockAll
	wait     time.Duration // WithWait; 0: none
	cancel   time.Duration // of the context; 0: none
	longHold bool
	refused  string // the name that was not free
}

func (l *lane) request() request {
	r, ttl := l.r, l.w.ttl
	q := request{names: []string{"m"}, need: 1, limit: 1}
	kind, reader, units := r.below(20), r.chance(60), 1+r.below(permits)
	q.try, q.fair, q.reentry, q.longHold = r.chance(20), r.chance(40), r.chance(25), r.chance(12)
	if r.chance(10) {
		q.maxHold = r.between(ttl/20, 2*ttl)
	}
	q.fixed = r.chance(8)
	if r.chance(10) {
		q.wait = r.between(1, 2*ttl)
	}
	if r.chance(20) {
		q.cancel = r.between(1, 2*ttl)
	}
	switch {
	case kind < 8:
	case kind < 10:
		q.names = []string{"n"}
	case kind < 14:
		q.names, q.limit, q.need = []string{"rw"}, driver.All, driver.All
		if reader {
			q.need = 1
		}
	case kind < 17 && l.w.setting.nodes == 1:
		q.names, q.limit, q.need = []string{"s"}, permits, units
	case kind < 20:
		q.names, q.all = []string{"n", "m"}, true
		if q.cancel == 0 && q.wait == 0 {
			q.cancel = r.between(1, ttl)
		}
		q.cancel, q.wait = min(q.cancel, ttl), min(q.wait, ttl*9/10) // not in one moment
	}
	return q
}

func (q *request) options() (o []pawl.Option) {
	if q.fair {
		o = append(o, pawl.WithFair())
	}
	if q.maxHold > 0 {
		o = append(o, pawl.WithMaxHold(q.maxHold))
	}
	if q.fixed {
		o = append(o, pawl.WithoutRenewal())
	}
	if q.reentry {
		o = append(o, pawl.WithReentry())
	}
	if q.wait > 0 {
		o = append(o, pawl.WithWait(q.wait))
	}
	return o
}

// acquire calls the client.
func (l *lane) acquire(ctx context.Context, q *request) (*pawl.Lease, error) {
	c, o := l.p.client, q.options()
	switch {
	case q.all && q.try:
		return c.TryLockAll(ctx, q.names, o...)
	case q.all:
		return c.LockAll(ctx, q.names, o...)
	case q.limit == driver.All && q.need == 1 && q.try:
		return c.RWMutex(q.names[0], o...).TryRLock(ctx)
	case q.limit == driver.All && q.need == 1:
		return c.RWMutex(q.names[0], o...).RLock(ctx)
	case q.limit == driver.All && q.try:
		return c.RWMutex(q.names[0], o...).TryLock(ctx)
	case q.limit == driver.All:
		return c.RWMutex(q.names[0], o...).Lock(ctx)
	case q.limit == permits && q.try:
		return c.Semaphore(q.names[0], permits, o...).TryAcquire(ctx, q.need)
	case q.limit == permits:
		return c.Semaphore(q.names[0], permits, o...).Acquire(ctx, q.need)
	case q.try:
		return c.Mutex(q.names[0], o...).TryLock(ctx)
	}
	return c.Mutex(q.names[0], o...).Lock(ctx)
}

// locks makes one acquire, and holds what it got.
func (l *lane) locks() {
	q := l.request()
	a, lease := l.take(&q, func(ctx context.Context) (*pawl.Lease, error) { return l.acquire(ctx, &q) })
	if lease == nil {
		l.record(&q, a, nil)
		return
	}
	h := &hold{l: l, q: &q, a: a, lease: lease}
	h.run()
	l.record(&q, h.a, h)
}

// take makes the call of an acquire and notes its times and result.
func (l *lane) take(q *request, call func(context.Context) (*pawl.Lease, error)) (a history.Attempt, lease *pawl.Lease) {
	w := l.w
	a = history.Attempt{Client: l.p.id, Lane: l.id, Need: q.need, Limit: q.limit, Try: q.try, Fair: q.fair || q.need < q.limit || q.fixed, Called: w.now()}
	ctx, t := l.ticket(l.p.ctx)
	if q.cancel > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, q.cancel)
		defer cancel()
	}
	w.count(func(t *Tally) { t.Operations++ })
	lease, err := call(ctx)
	l.p.runs(uint64(l.id))
	a.Queued, a.Returned = t.queued, w.now()
	limit := q.cancel
	if q.wait > 0 && errors.Is(err, pawl.ErrHeld) { // it ended its wait by itself
		limit = q.wait
	}
	if limit > 0 && a.Returned >= a.Called+history.Time(limit) {
		a.Cancelled = a.Called + history.Time(limit) - 1
	}
	switch {
	case l.p.killed():
		a.Result = history.NoAnswer
		return a, nil
	case err == nil:
		a.Result = history.Held
		return a, lease
	case q.try && errors.Is(err, pawl.ErrHeld) && !errors.Is(err, pawl.ErrUnreachable):
		a.Result, q.refused = history.Busy, q.names[0]
		if e, ok := errors.AsType[*pawl.Error](err); ok {
			q.refused = e.Name
		}
	default:
		a.Result = history.Failed
	}
	a.Err = err.Error()
	l.judgeError(q, &a, err)
	l.judgeLine(q, &a, t.who)
	return a, nil
}

// judgeError reports an error that an acquire must not return.
func (l *lane) judgeError(q *request, a *history.Attempt, err error) {
	from := a.Called
	switch disturbed := l.w.disturbed(l.p.id, from, a.Returned); {
	case errors.Is(err, pawl.ErrClosed), disturbed && errors.Is(err, pawl.ErrUnreachable):
	case q.cancel > 0 && errors.Is(err, context.DeadlineExceeded):
	case errors.Is(err, pawl.ErrHeld) && (q.try || q.wait > 0):
	case q.all && errors.Is(err, pawl.ErrLost) && (disturbed || q.maxHold > 0 || q.fixed):
	default:
		l.w.breach(keptHolds, "client %d lane %d called at %v for %v: %v", l.p.id, l.id, from, q.names, err)
	}
	limit := q.cancel
	if q.wait > 0 && (limit == 0 || q.wait < limit) {
		limit = q.wait
	}
	if took := time.Duration(a.Returned - from); limit > 0 && !q.try && took > limit+2*time.Second && !l.p.stoodStill(from) {
		l.w.breach(EndlessWait, "client %d called at %v with %v to wait, and waited %v", l.p.id, from, limit, took)
	}
}

// record keeps what was seen of an acquire, for each name.
func (l *lane) record(q *request, a history.Attempt, h *hold) {
	for _, name := range q.names {
		part := a
		part.Name = name
		if q.all { // which of the names it waited for, and when, is not told
			part.Queued = 0
		}
		if a.Result == history.Busy && name != q.refused {
			part.Result = history.Failed
		}
		if h != nil {
			of := h.lease.Part(name)
			part.Token = of.Token()
			h.evictedPart(&part, of.ID())
			part.Writes = h.writes[name]
		}
		l.attempts = append(l.attempts, part)
	}
}
