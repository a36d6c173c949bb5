package kvline

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

// A presence is the value of a session. It lives for its TTL after the last write of this
// value, by the store's time of that write. Its owner writes it with each beat, over its own
// last write only. Whoever wants to end its claims deletes the value first, in the same way:
// of that write and one of the owner's, one is refused. A session without a value has ended.
type presence struct {
	TTL     time.Duration `json:"ttl"`
	Evicted []place       `json:"evicted,omitempty"` // claims that the owner has to look for: an operator breaks them
}

// storedPresence is how a presence is stored.
type storedPresence struct {
	Session *presence `json:"pawl session"`
}

const presencePrefix = "session."

func presenceKey(session string) string { return presencePrefix + encode(session) }

func (p presence) write() []byte {
	data, err := json.Marshal(storedPresence{&p})
	if err != nil {
		panic(err) // it has only texts and numbers
	}
	return data
}

// keep returns for how long the store must keep the value at least.
func (p presence) keep() time.Duration { return 2*p.TTL + 2*time.Second }

func (e *Engine) readPresence(ctx context.Context, session string) (p presence, v Value, err error) {
	v, err = e.store.Get(ctx, presenceKey(session))
	if err != nil || v.Data == nil {
		return p, v, err
	}
	var s storedPresence
	if json.Unmarshal(v.Data, &s) != nil || s.Session == nil {
		return p, v, e.keyError(session, errForeign)
	}
	return *s.Session, v, nil
}

// seen is what an engine has learnt of sessions.
type seen struct {
	mu   sync.Mutex // guards byID
	byID map[string]sighting
}

type sighting struct {
	until time.Time // it lives until then, by the store's clock, or longer
	ended bool      // for ever
}

func (s *seen) get(session string) (sighting, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, ok := s.byID[session]
	return x, ok
}

func (s *seen) set(session string, x sighting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = map[string]sighting{}
	}
	if s.byID[session].ended {
		return
	}
	for other := range s.byID {
		if len(s.byID) < maxKnown {
			break
		}
		delete(s.byID, other)
	}
	s.byID[session] = x
}

// sight reads whether a session lives. One that seems to have expired does not have to: it may
// be an old value.
func (e *Engine) sight(ctx context.Context, session string) (x sighting, expired bool, v Value, err error) {
	p, v, err := e.readPresence(ctx, session)
	if err != nil {
		return x, false, v, err
	}
	x.until = v.Time.Add(p.TTL)
	if v.Data == nil {
		x.ended = v.Revision != 0 // it was deleted
		return x, !x.ended, v, nil
	}
	now, err := e.store.Now(ctx, clockAge)
	if err == nil && (!x.until.After(now.Add(time.Second)) || v.Time.After(now.Add(time.Second))) {
		now, err = e.store.Now(ctx, 0)
	}
	return x, !x.until.After(now), v, err
}

// check finds out whether a session has ended, and ends it if it has expired.
func (e *Engine) check(ctx context.Context, session string) (ended bool, err error) {
	if x, ok := e.seen.get(session); ok && x.ended {
		return true, nil
	}
	for conflicts := 0; ; conflicts++ {
		x, expired, v, err := e.sight(ctx, session)
		if err != nil {
			return false, err
		}
		if expired {
			x.ended = true
			_, err = e.store.Put(ctx, presenceKey(session), Value{Revision: v.Revision}, 0)
		}
		if err == nil {
			e.seen.set(session, x)
			return x.ended, nil
		}
		if !errors.Is(err, ErrConflict) {
			return false, err
		}
		pauseAfter(ctx, conflicts)
	}
}

// pauseAfter lets others finish whose writes came first again and again.
func pauseAfter(ctx context.Context, conflicts int) {
	if conflicts > 1 {
		driverkit.Pause(ctx, rand.N(min(10*time.Microsecond<<min(conflicts, 12), 40*time.Millisecond)))
	}
}

// mark tells the owner of a claim that is about to be evicted to look for it, with every
// beat from now on.
func (e *Engine) mark(ctx context.Context, c claim) error {
	for conflicts := 0; ; conflicts++ {
		p, v, err := e.readPresence(ctx, c.Session)
		if err != nil || v.Data == nil {
			return err
		}
		p.Evicted = append(p.Evicted, place{ID: c.ID, Try: c.Try})
		if _, err = e.store.Put(ctx, presenceKey(c.Session), Value{Data: p.write(), Revision: v.Revision}, p.keep()); !errors.Is(err, ErrConflict) {
			return err
		}
		pauseAfter(ctx, conflicts)
	}
}

// believed reports whether a claim need not be checked now: it expires in another way, its
// session is known to live, or it came a moment ago.
func (e *Engine) believed(c *claim, now time.Time) bool {
	x, _ := e.seen.get(c.Session)
	return !c.bySession() || !x.ended && e.due(c, now).After(now)
}

// due returns when a claim is to be checked. A session whose claim was entered had been
// beaten a third of its TTL before at the earliest.
func (e *Engine) due(c *claim, now time.Time) time.Time {
	if !c.bySession() {
		return c.until()
	}
	x, _ := e.seen.get(c.Session)
	sure := 2 * c.ttl() / 3
	entered := time.Unix(0, c.Beat).Add(sure)
	if x.ended || entered.Before(x.until) || entered.After(now.Add(sure+time.Second)) { // the last: the clock was set
		return x.until
	}
	return entered
}

// judge ends the sessions that have expired of the claims at the front of a line, and
// removes all claims of theirs. So those who are held then are of sessions that live, and
// so is who keeps others out. Nobody else's session is looked at.
func (e *Engine) judge(ctx context.Context, l *line, now time.Time) error {
	for batch := 1; ; batch *= 2 { // many at the front may have died together
		var doubtful []string
		for _, c := range l.front(batch) {
			if !e.believed(&c, now) && !slices.Contains(doubtful, c.Session) {
				doubtful = append(doubtful, c.Session)
			}
		}
		if len(doubtful) == 0 {
			return nil
		}
		ended, errs := make([]bool, len(doubtful)), make([]error, len(doubtful))
		each(len(doubtful), func(i int) { ended[i], errs[i] = e.check(ctx, doubtful[i]) })
		if err := driver.Join(errs...); err != nil {
			return err
		}
		before := len(*l)
		*l = slices.DeleteFunc(*l, func(c claim) bool {
			i := slices.Index(doubtful, c.Session)
			return i >= 0 && ended[i] && c.bySession()
		})
		if len(*l) == before {
			return nil
		}
	}
}

// standing returns how a claim stands. Who waits is to look when the first one at the front
// has to be checked; those further behind later, in case that nobody did.
func (e *Engine) standing(l line, i int, name string, now time.Time) driver.Standing {
	st := driver.Standing{Held: l[i].Held, Ahead: i}
	if st.Held {
		st.Token = l[i].Token
		return st
	}
	head := l[0].entry(name, now, e.due(&l[0], now))
	st.Holder = &head
	behind := i - l.held()
	for _, c := range l.front(1) {
		if c.ID == l[i].ID {
			break
		}
		if left := max(time.Millisecond, e.due(&c, now).Sub(now)); st.Pause == 0 || left < st.Pause {
			st.Pause = left
		}
	}
	st.Pause += l[0].ttl() * time.Duration(min(max(behind, 0), near)) / near
	return st
}

// atOnce is how many calls are under way for one of a caller.
const atOnce = 64

// each calls f for 0 to n-1, some at a time, and waits.
func each(n int, f func(i int)) {
	var all sync.WaitGroup
	next := make(chan int)
	for range min(n, atOnce) {
		all.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
}
