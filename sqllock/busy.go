package sqllock

import (
	"context"
	"slices"
	"time"
)

// maxPatience bounds how long one beat waits for rows that others hold.
const maxPatience = time.Second

// fewBusy is how many rows a beat waits for. Where there are more it is not that
// many come and go: one transaction has them, such as that of a beat that was cut.
const fewBusy = 8

func few(busy []*pulse) bool { return len(busy) <= fewBusy }

// beatBusy beats claims whose rows were held by somebody at every look. Where
// many come and go on one name, somebody always has its row, and a beat that only
// looks would find it taken until the hold is over: it takes its place among those
// who wait for the row, each claim in a flight of its own, so that it holds nothing
// meanwhile. A row that is held for longer, as by a guard, keeps the expiry it
// has, and is told as not learnt; the next beat waits for it only if it has time
// left when all others are answered.
//
// One at a time in an engine waits so: other beats have connections left.
func (s *session) beatBusy(ctx context.Context, busy []*pulse) error {
	if !few(busy) && ctx.Err() == nil {
		if err := s.beatSpots(ctx, busy); err != nil {
			return err
		}
		busy = slices.DeleteFunc(busy, (*pulse).answered)
	}
	if len(busy) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.patience(ctx))
	defer cancel()
	select {
	case s.e.patient <- struct{}{}:
		defer func() { <-s.e.patient }()
	case <-ctx.Done():
		return nil
	}
	slices.SortStableFunc(busy, func(a, b *pulse) int { return rank(a) - rank(b) })
	busy = busy[:min(len(busy), fewBusy)]
	until, _ := ctx.Deadline()
	for i, p := range busy {
		if ctx.Err() != nil {
			return nil
		}
		s.beatWaiting(ctx, p, time.Until(until)/time.Duration(len(busy)-i))
	}
	busy = slices.DeleteFunc(busy, (*pulse).answered)
	if len(busy) == 0 || ctx.Err() != nil {
		return nil
	}
	return s.seek(ctx, busy) // they have moved or ended while their row was waited for
}

// rank puts those for whom there is more hope first.
func rank(p *pulse) int {
	if p.vain {
		return 1
	}
	return 0
}

// waited notes whether p's row was waited for in vain, as far as is known.
func (s *session) waited(p *pulse, vain bool) {
	if vain == p.vain {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.vain = vain
	if _, ours := s.claims[p.c.ID]; vain && ours {
		s.vain[p.c.ID] = struct{}{}
	} else {
		delete(s.vain, p.c.ID)
	}
}

// patience is how long a beat waits for rows, if ctx lets it.
func (s *session) patience(ctx context.Context) time.Duration {
	most := min(s.ttl/12, maxPatience)
	if end, ok := ctx.Deadline(); ok {
		return min(most, time.Until(end))
	}
	return most
}

// beatWaiting waits for one claim's row and prolongs it. An error says only that
// nothing was learnt: what else is wrong, the beat's other flights meet too.
func (s *session) beatWaiting(ctx context.Context, p *pulse, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	p.inHead, p.inLine = false, false
	step := s.beatLine(p, s.e.q.beatWait)
	if p.spot.head {
		step = s.beatHead(p, s.e.q.beatWaitX)
	}
	s.waited(p, true)
	_ = s.pulse(ctx, &Flight{Beat: true, Waits: true, Steps: []Step{step}}, []*pulse{p})
}
