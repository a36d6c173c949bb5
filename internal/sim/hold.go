package sim

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/history"
)

// A hold is one lease from its grant to its Unlock.
type hold struct {
	l      *lane
	q      *request
	a      history.Attempt
	lease  *pawl.Lease
	writes map[string][]history.Write
	nested sync.WaitGroup
	ended  history.Time // of the lease's context, if that ended; guarded by world.mu
}

// run uses the lease and gives it back.
func (h *hold) run() {
	l, r := h.l, h.l.r
	l.w.count(func(t *Tally) { t.Grants++ })
	h.writes = map[string][]history.Write{}
	longest, confirm, nests, ignores := 20*time.Millisecond, r.chance(15), r.chance(40), r.chance(10)
	if r.chance(40) {
		longest = l.w.ttl / 4
	}
	if brief := l.w.sparse && r.chance(95); brief {
		longest = min(longest, l.w.ttl/200)
	} else if h.q.longHold {
		longest = 3 * l.w.ttl
	}
	d, d2, d3 := r.between(1, longest), r.between(1, 10*time.Millisecond), r.between(1, l.w.ttl)
	defer context.AfterFunc(h.lease.Context(), h.contextEnded)()
	h.look()
	if nests && h.q.reentry && !h.q.all && h.q.limit != permits {
		h.nest(d2)
	}
	h.keep(d / 2)
	if confirm && !l.p.killed() {
		h.confirm()
	}
	h.write()
	h.keep(d - d/2)
	if ignores && h.lost() { // a holder that notices late
		l.sleep(d3)
	}
	h.nested.Wait()
	h.unlock()
}

// look asks the lease, and notes that it was held.
func (h *hold) look() bool {
	now := h.l.w.now()
	if h.lease.Err() != nil {
		return false
	}
	h.a.Alive = now
	longest := h.q.maxHold
	if h.q.fixed {
		longest = h.l.w.ttl
	}
	if held := time.Duration(now - h.a.Returned); longest > 0 && held > longest {
		h.l.w.breach(trueAnswers, "client %d holds %v for %v, and asked for %v at most", h.l.p.id, h.q.names, held, longest)
	}
	h.judgeDeadline()
	return true
}

// judgeDeadline compares the lease's deadline with the store's own, which it must not
// exceed. Of a quorum's nodes each has another.
func (h *hold) judgeDeadline() {
	w := h.l.w
	if w.defect != sound || len(w.nodes) > 1 || h.q.all {
		return
	}
	line, _ := w.nodes[0].mem.Line(context.Background(), h.q.names[0])
	for _, e := range line {
		if late := time.Until(h.lease.Deadline()) - e.Left; e.ID == h.lease.ID() && late > 0 {
			w.breach(history.LossInTime, "client %d: the deadline of %v is %v after that of the store", h.l.p.id, h.q.names, late)
		}
	}
}

func (h *hold) lost() bool { return h.lease.Err() != nil }

// keep holds for d. It looks at the last moment before each deadline, so that a deadline
// which is too late is seen; after it the context must end by itself.
func (h *hold) keep(d time.Duration) {
	end := time.Now().Add(d)
	for h.a.Told == 0 && !h.l.p.killed() {
		deadline := h.lease.Deadline()
		over := !deadline.Add(-1).After(time.Now())
		until := end
		if last := deadline.Add(-1); over {
			until = deadline.Add(maxTold)
		} else if last.Before(end) {
			until = last
		}
		ended := h.wait(until)
		switch {
		case h.l.p.killed():
			return
		case over && !ended && !h.l.p.stoodStill(h.l.w.now()-history.Time(maxTold)):
			h.l.w.breach(history.LossInTime, "client %d: the context of %v goes on %v after its deadline", h.l.p.id, h.q.names, maxTold)
		}
		if !h.look() {
			h.told()
			return
		}
		if !time.Now().Before(end) {
			return
		}
	}
}

// maxTold is how long after its deadline a lease's context ends at the latest.
const maxTold = 100*time.Millisecond + 1

// wait waits until then, or until the lease's context ends, and reports whether that has ended.
func (h *hold) wait(until time.Time) bool {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-h.lease.Context().Done():
	case <-h.l.p.ctx.Done():
	}
	h.l.p.runs(uint64(h.l.id))
	select {
	case <-h.lease.Context().Done():
		return true
	default:
		return false
	}
}

// contextEnded notes when the context ended, also while the lane does something else.
func (h *hold) contextEnded() {
	h.l.p.runs(uint64(h.l.id) + 100)
	h.l.w.mu.Lock()
	defer h.l.w.mu.Unlock()
	h.ended = h.l.w.now()
}

// told notes that the lease was lost, and judges why.
func (h *hold) told() {
	w, p := h.l.w, h.l.p
	w.mu.Lock()
	h.a.Told = cmp.Or(h.ended, w.now())
	w.mu.Unlock()
	why := h.lease.Err()
	if h.lease.Context().Err() == nil {
		w.breach(trueAnswers, "client %d: Err of a lease says %v, and its context goes on", p.id, why)
	}
	if errors.Is(why, pawl.ErrClosed) || h.q.maxHold > 0 || h.q.fixed {
		return
	}
	w.count(func(t *Tally) { t.Losses++ })
	if !w.disturbed(p.id, h.a.Called, h.a.Told) {
		w.breach(keptHolds, "client %d held %v since %v, and lost it at %v: %v", p.id, h.q.names, h.a.Returned, h.a.Told, why)
	}
}

// write writes to the register of each name, where the hold is exclusive.
func (h *hold) write() {
	if h.q.need < h.q.limit || h.l.p.killed() {
		return
	}
	way, back := h.l.r.between(1, h.l.w.latency), h.l.r.between(1, h.l.w.latency)
	for _, name := range h.q.names {
		token := h.lease.Part(name).Token()
		at := h.l.w.now()
		time.Sleep(way)
		seq, accepted := h.l.w.write(name, token)
		time.Sleep(back)
		h.l.p.runs(uint64(h.l.id))
		if h.l.p.killed() {
			seq = 0
		}
		h.writes[name] = append(h.writes[name], history.Write{Seq: seq, At: at, Answered: h.l.w.now(), Accepted: accepted})
	}
}

// confirm asks the store, which must not say yes for a claim that was evicted.
func (h *hold) confirm() {
	w, from := h.l.w, h.l.w.now()
	ctx, cancel := context.WithTimeout(h.l.p.ctx, h.l.r.between(w.ttl/10, w.ttl))
	defer cancel()
	err := h.lease.Confirm(ctx)
	h.l.p.runs(uint64(h.l.id))
	w.count(func(t *Tally) { t.Confirms++ })
	if err != nil {
		return
	}
	for _, part := range h.lease.Parts() {
		if at, evicted := w.evictedAt(part.ID()); evicted && h.a.Returned < at && at < from {
			w.breach(trueAnswers, "client %d: Confirm of a claim that was evicted at %v says at %v that it is held", h.l.p.id, at, w.now())
		}
	}
}

// nest takes the lock again from inside, in two goroutines that exclude each other.
func (h *hold) nest(d time.Duration) {
	inside := 0 // goroutines that hold it nested
	var mu sync.Mutex
	change := func(by int) int {
		mu.Lock()
		defer mu.Unlock()
		inside += by
		return inside
	}
	for i := range 2 {
		h.nested.Go(func() {
			time.Sleep(d/3 + time.Duration(i)*d/7 + time.Duration(i))
			n, err := h.l.acquire(h.lease.Context(), &request{names: h.q.names, need: h.q.need, limit: h.q.limit, reentry: true})
			if err != nil {
				return // the outer lease was lost
			}
			if exclusive := h.q.need >= h.q.limit; change(1) > 1 && exclusive && n.Err() == nil {
				h.l.w.breach(ownExclusion, "client %d holds %v twice inside one lease at %v", h.l.p.id, h.q.names, h.l.w.now())
			}
			time.Sleep(d / 2)
			change(-1)
			if h.lease.Err() == nil && n.Token() != h.lease.Token() {
				h.l.w.breach(trueAnswers, "client %d: token %d of a lease inside one with token %d", h.l.p.id, n.Token(), h.lease.Token())
			}
			_ = n.Unlock() // may have been lost
		})
	}
}

// maxUnlock is how long Unlock may take on a store that does not answer.
const maxUnlock = 5 * time.Second

// unlock gives the lease back.
func (h *hold) unlock() {
	w, p := h.l.w, h.l.p
	if p.killed() {
		return
	}
	h.look()
	alive := h.a.Alive
	h.a.Unlock = w.now()
	err := h.lease.Unlock()
	p.runs(uint64(h.l.id))
	h.a.Unlocked = w.now()
	if p.killed() {
		h.a.Unlocked = 0
		return
	}
	if took := time.Duration(h.a.Unlocked - h.a.Unlock); took > maxUnlock+w.latency+10*time.Millisecond && !p.stoodStill(h.a.Unlock) {
		w.breach(EndlessWait, "Unlock of client %d took %v", p.id, took)
	}
	switch {
	case err == nil:
		h.a.End = history.Released
	case errors.Is(err, pawl.ErrLost):
		h.a.End = history.Lost
		if h.a.Told == 0 {
			h.a.Told = h.a.Unlocked
		}
		if alive == h.a.Unlock { // held until then, and given back without being used any more
			h.a.End, h.a.Told = history.Unknown, 0
		} else {
			h.a.Unlock, h.a.Unlocked = 0, 0
		}
	case errors.Is(err, pawl.ErrUnknown), errors.Is(err, pawl.ErrClosed):
		h.a.End = history.Unknown
		if h.a.Told != 0 { // Close gave it back
			h.a.Unlock, h.a.Unlocked = 0, 0
		}
	default:
		w.breach(keptHolds, "client %d: unlock %v: %v", p.id, h.q.names, err)
	}
	h.judgeUnlock(err)
}

// judgeUnlock compares the answer of Unlock with what happened in the store.
func (h *hold) judgeUnlock(err error) {
	w, p := h.l.w, h.l.p
	asked := h.q.maxHold > 0 || h.q.fixed
	// A quorum that voted again and again grants with little time left, and the first beat
	// comes a third of a TTL later.
	late := h.a.Returned-h.a.Called > history.Time(w.ttl/2) && h.a.Unlock-h.a.Returned < history.Time(w.ttl/3)
	if err != nil && !errors.Is(err, pawl.ErrClosed) && !asked && !late && !w.disturbed(p.id, h.a.Called, w.now()) {
		w.breach(keptHolds, "client %d: unlock %v: %v", p.id, h.q.names, err)
	}
	if err == nil && h.a.Told != 0 {
		w.breach(trueAnswers, "client %d: the lease of %v was lost at %v, and Unlock says nothing of it", p.id, h.q.names, h.a.Told)
	}
	passed := !h.q.fair && !h.q.fixed && h.q.need >= h.q.limit // inside the process, where nothing is known of an eviction
	for _, part := range h.lease.Parts() {
		if at, evicted := w.evictedAt(part.ID()); evicted && h.a.Returned < at && at < h.a.Unlock && err == nil && !passed {
			w.breach(trueAnswers, "client %d: Unlock at %v of a claim that was evicted at %v says that all was well", p.id, h.a.Unlock, at)
		}
	}
}

func (w *world) evictedAt(id string) (history.Time, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at, evicted := w.evicted[id]
	return at, evicted
}

// evictedPart ends the record of a hold at its eviction: what comes after it until the
// next beat breaks exclusion by design.
func (h *hold) evictedPart(a *history.Attempt, id string) {
	at, evicted := h.l.w.evictedAt(id)
	if !evicted || a.Result != history.Held {
		return
	}
	a.Alive, a.Told, a.Unlock, a.Unlocked, a.End = min(a.Alive, at), 0, 0, 0, history.Unknown
	if at < a.Returned {
		a.Result = history.NoAnswer
	}
}
