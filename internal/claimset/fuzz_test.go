package claimset

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A model is what is known of one claim by rules that are simpler than the set's: it
// keeps every promise, and computes what follows from them when asked.
type model struct {
	state    State
	promises []Instant // of the present ID and Try, margin off
	since    Instant   // when the holder began
	tokens   [2]uint64 // fence and pass of the last holder
	try      int
	id       string
	answered int     // the last round in which a beat was answered for it
	asked    Instant // when the beat was sent that may be under way; 0: there is none
}

func (m *model) promise() (latest Instant) {
	for _, p := range m.promises {
		latest = max(latest, p)
	}
	return latest
}

func (m *model) deadline(maxHold time.Duration) Instant {
	if maxHold != 0 {
		return min(m.promise(), m.since.Add(maxHold))
	}
	return m.promise()
}

// A history is a set, its models, and the beats that are under way.
type history struct {
	t       *testing.T
	s       Set
	now     Instant
	session Instant // until when the session was promised
	earlier Instant // until when it was promised before the last beat
	claims  []*Claim
	models  map[*Claim]*model
	beats   []sentBeat
	next    int
	fence   uint64
	round   int // of beats
}

type sentBeat struct {
	sent  Instant
	qs    []Query
	round int
}

func newHistory(t *testing.T, fixed bool) *history {
	return &history{
		t: t, s: New(ttl, margin, fixed, start), now: start, session: start.Add(ttl), earlier: start.Add(ttl), round: 1,
		models: map[*Claim]*model{}, fence: 1,
	}
}

func (h *history) id() string { h.next++; return fmt.Sprint(h.next) }

// step does one thing, chosen by op, to the claim chosen by which.
func (h *history) step(op, which byte) {
	h.now = h.now.Add(time.Duration(which>>4) * 100 * time.Millisecond)
	if op%16 == 0 || len(h.claims) == 0 {
		h.join(which)
		return
	}
	c := h.claims[int(which)%len(h.claims)]
	m := h.models[c]
	switch op % 16 {
	case 1, 2, 3:
		h.enter(c, m, op)
	case 4:
		h.fence++
		h.grant(c, m)
	case 5:
		h.pass(c, m)
	case 6:
		if h.s.End(c) != (m.state == Held) {
			h.t.Fatal("End does not say whether the claim was held")
		}
		m.state = Ended
	case 7:
		h.reenter(c, m, op)
	case 8:
		h.s.NextRound()
		h.round++
		h.beat()
	case 9:
		h.beat()
	case 10, 11, 12:
		h.answer(op, which)
	case 13:
		h.confirm(c, m, op)
	case 14:
		for _, c := range h.s.Expired(h.now) {
			if m := h.models[c]; m.state != Held || h.now < m.deadline(c.MaxHold) {
				h.t.Fatal("a hold expired before its deadline")
			}
			h.s.End(c)
			h.models[c].state = Ended
		}
		h.s.Refresh()
	case 15:
		if which == 255 {
			h.s.Retire()
		}
	}
}

// beat sends one, which asks for the claims that have no answer yet, the most urgent first.
func (h *history) beat() {
	qs := h.s.Query(nil, h.now, ttl/6)
	asked := map[*Claim]bool{}
	for i, q := range qs {
		asked[q.Claim] = true
		if i > 0 && (q.Held && !qs[i-1].Held || q.Held == qs[i-1].Held && q.Claim.Promise() < qs[i-1].Claim.Promise()) {
			h.t.Fatal("a beat asks for a claim after one that is less urgent")
		}
	}
	for _, c := range h.claims {
		m := h.models[c]
		patience := 2 * ttl / 6
		if m.state == Held {
			patience = ttl / 6
		}
		want := (m.state == Waiting || m.state == Held && !h.s.fixed) && m.answered < h.round && (m.asked == 0 || h.now >= m.asked.Add(patience))
		if asked[c] != want {
			h.t.Fatalf("a beat asks for claim %s: %v, want %v", c.ID, asked[c], want)
		}
		if want {
			m.asked = h.now
		}
	}
	h.beats = append(h.beats, sentBeat{h.now, qs, h.round})
}

func (h *history) join(which byte) {
	c := queued(h.id())
	c.MaxHold = time.Duration(which%3) * 4 * time.Second
	if h.s.Join(c) {
		h.claims = append(h.claims, c)
		h.models[c] = &model{try: 1, id: c.ID}
	}
}

// enter answers an Enter that was sent a moment ago. The core enters only claims that
// are not held yet.
func (h *history) enter(c *Claim, m *model, op byte) {
	if m.state == Held || m.state == Ended {
		return
	}
	st := driver.Standing{Held: op%16 == 1}
	sent := h.now.Add(-time.Duration(op>>4) * 100 * time.Millisecond)
	if op>>4 != 0 {
		st.Valid = ttl
		m.promises = append(m.promises, sent.Add(ttl-margin))
	} else {
		m.promises = append(m.promises, h.earlier.Add(-margin))
	}
	h.s.Answered(c, sent, h.earlier, st)
	if !st.Held {
		m.state = Waiting
	}
}

func (h *history) grant(c *Claim, m *model) {
	if m.state == Held {
		return // the core grants once
	}
	want := m.state != Ended && h.now < m.promise()
	if got := h.s.Grant(c, h.fence, h.now); got != want {
		h.t.Fatalf("granted %v, want %v", got, want)
	}
	if want {
		m.state, m.since = Held, h.now
		h.holder(c, m)
	}
}

func (h *history) pass(c *Claim, m *model) {
	if h.s.Pass(c, h.now, time.Second) {
		if m.state != Held || m.promise().Sub(h.now) <= ttl/3 {
			h.t.Fatal("passed on without a hold, or too late")
		}
		m.since = h.now
		h.holder(c, m)
	}
}

// holder checks that the tokens of a claim's holders grow.
func (h *history) holder(c *Claim, m *model) {
	now := [2]uint64{c.Fence(), uint64(c.Pass())}
	if now[0] < m.tokens[0] || now[0] == m.tokens[0] && now[1] <= m.tokens[1] {
		h.t.Fatalf("token %v follows %v", now, m.tokens)
	}
	m.tokens = now
}

// reenter gives up a place in line.
func (h *history) reenter(c *Claim, m *model, op byte) {
	if m.state == Held || m.state == Ended {
		return
	}
	if op>>4%2 == 0 {
		h.s.Retry(c)
		m.try++
	} else {
		h.s.Rename(c, h.id())
		m.try, m.id = 1, c.ID
	}
	m.state, m.promises, m.answered, m.asked = Entering, nil, 0, 0
}

func (h *history) confirm(c *Claim, m *model, op byte) {
	st := driver.Standing{Held: true, Token: c.Fence(), Valid: ttl}
	if op>>4%2 == 0 {
		st.Token++
	}
	ok := h.s.Confirmed(c, c.Fence(), h.now, st)
	if ok != (st.Token == c.Fence()) {
		h.t.Fatal("confirmed another grant, or not this one")
	}
	if ok && m.state != Ended && (m.state != Held || !h.s.fixed) {
		m.promises = append(m.promises, h.now.Add(ttl-margin))
	}
}

// answer answers one of the beats under way, in any order.
func (h *history) answer(op, which byte) {
	if len(h.beats) == 0 {
		return
	}
	i := int(which) % len(h.beats)
	b := h.beats[i]
	h.earlier = h.session
	h.beats = append(h.beats[:i], h.beats[i+1:]...)
	for j, q := range b.qs {
		m := h.models[q.Claim]
		st := driver.Standing{Held: q.Held || op>>4%4 == 3, Valid: ttl, Token: q.Claim.Fence()}
		switch (int(which) + j) % 5 {
		case 0:
			st = driver.Standing{}
		case 1:
			st = driver.Standing{Gone: true}
		}
		if m.asked == b.sent {
			m.asked = 0
		}
		stale := m.state == Ended || m.id != q.ID || m.try != q.Try
		late := m.state == Held && h.now >= m.deadline(q.Claim.MaxHold)
		switch got := h.s.Prolonged(q, st, b.sent, h.now); {
		case (got == Stale) != stale:
			h.t.Fatalf("outcome %d of an answer, stale: %v", got, stale)
		case got == Renewed && (late || m.state != Held):
			h.t.Fatal("renewed after its deadline, or without a hold")
		case got == Renewed || got == Turn || got == InLine:
			m.answered = max(m.answered, b.round)
			m.promises = append(m.promises, b.sent.Add(ttl-margin))
			h.session = max(h.session, b.sent.Add(ttl))
		case got == Replaced || got == Late:
			h.s.End(q.Claim)
			m.state = Ended
		}
	}
	complete := op>>4%2 == 0
	h.s.Beaten(b.sent, complete)
	if complete {
		h.session = max(h.session, b.sent.Add(ttl))
	}
	if h.s.Promised() != h.session {
		h.t.Fatalf("the session is promised until %v, want %v", h.s.Promised(), h.session)
	}
	h.s.Refresh()
}

// check compares the set with the models.
func (h *history) check() {
	held := 0
	for _, c := range h.claims {
		m := h.models[c]
		if c.State() != m.state || c.ID != m.id || c.Try != m.try {
			h.t.Fatalf("claim %s try %d in state %d, want %s, %d, %d", c.ID, c.Try, c.State(), m.id, m.try, m.state)
		}
		if m.state != Ended && c.Promise() != m.promise() {
			h.t.Fatalf("promised until %v, want %v", c.Promise(), m.promise())
		}
		if m.state != Held {
			continue
		}
		held++
		if c.Deadline() != m.deadline(c.MaxHold) || h.s.Next() > c.Deadline() {
			h.t.Fatalf("deadline %v, want %v; the next is %v", c.Deadline(), m.deadline(c.MaxHold), h.s.Next())
		}
	}
	if h.s.Held() != held {
		h.t.Fatalf("%d held, want %d", h.s.Held(), held)
	}
	for i, c := range h.s.Live() {
		if c.index != i || c.State() == Ended {
			h.t.Fatalf("live[%d] has index %d and state %d", i, c.index, c.State())
		}
	}
}

// FuzzSet runs random histories of one session: two bytes are one step.
func FuzzSet(f *testing.F) {
	f.Add(false, []byte{0, 0, 0x11, 0, 4, 0, 5, 0x20, 8, 0, 10, 3, 14, 0xf0, 6, 0})
	f.Add(true, []byte{0, 1, 0x12, 0, 8, 0, 0x3a, 2, 0x1d, 0x10, 4, 0, 14, 0xf0})
	f.Add(false, []byte{0, 2, 0, 1, 0x11, 0, 4, 0, 0x12, 1, 7, 1, 0x17, 1, 8, 1, 10, 0, 0xf1, 1, 4, 1})
	long := make([]byte, 4000)
	for i, x := 0, uint32(1); i < len(long); i++ {
		x = x*1664525 + 1013904223
		long[i] = byte(x >> 24)
	}
	f.Add(false, long)
	f.Add(true, long)
	f.Fuzz(func(t *testing.T, fixed bool, steps []byte) {
		h := newHistory(t, fixed)
		for i := 0; i+1 < len(steps); i += 2 {
			h.step(steps[i], steps[i+1])
			h.check()
		}
	})
}
