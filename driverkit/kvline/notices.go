package kvline

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

// maxNotices is the size of all copies of a line up to which the engines of those who are held
// now are sent it. Each of them would read it otherwise, before it gives the name back.
const maxNotices = 512 << 10

// A notice tells an engine of a change of a line. What the claims in it need to know is
// in it, so that none of them reads the line.
type notice struct {
	Name     string          `json:"name"`
	Revision uint64          `json:"revision"`
	Line     json.RawMessage `json:"line,omitempty"`
	Held     []place         `json:"held,omitempty"`    // claims of the engine that are held now
	Gone     []place         `json:"gone,omitempty"`    // and those that were ended, unless by themselves
	First    *place          `json:"first,omitempty"`   // the one that is the first to wait now
	Within   time.Duration   `json:"within,omitempty"`  // and after which time it is to check who is held
	Arrived  bool            `json:"arrived,omitempty"` // another waits for the engine's claim

	Enter     line          `json:"enter,omitempty"`     // claims that the engine is asked to enter
	After     time.Duration `json:"after,omitempty"`     // and after which time by a write of its own
	Limit     time.Duration `json:"limit,omitempty"`     // and for how long their engines wait in silence
	Quiet     time.Duration `json:"quiet,omitempty"`     // and have heard nothing
	Withdrawn line          `json:"withdrawn,omitempty"` // claims not to be entered any more
	Asked     []place       `json:"asked,omitempty"`     // claims of the engine that another is still to enter
	From      string        `json:"from,omitempty"`      // and the engine of that one
	Entered   []place       `json:"entered,omitempty"`   // claims of the engine that were entered as it has asked
	Leave     []place       `json:"leave,omitempty"`     // claims that the engine is asked to take out of the line
}

// A place is how a claim stands.
type place struct {
	Session string `json:"session"`
	ID      string `json:"id"`
	Try     int    `json:"try"`
	Token   uint64 `json:"token,omitempty"`
	Ahead   int    `json:"ahead,omitempty"`
	Held    bool   `json:"held,omitempty"` // of one that was entered
}

const (
	turnAddress = "turn." // and the address of the engine
	leftAddress = "left." // and the name
)

// news returns what a change is to the engines of claims that are held now, were ended by
// others or were entered for them, and to the engine of the one who is the first to wait now;
// before the write, whose revision is 0 in it. departed says that a claim leaves the line.
func (e *Engine) news(name string, was, is line, data []byte) (notices map[string]*notice, departed bool) {
	notices = map[string]*notice{}
	places := is.places()
	of := func(c claim) *notice {
		if notices[c.Engine] == nil {
			notices[c.Engine] = &notice{Name: name}
		}
		return notices[c.Engine]
	}
	for _, c := range was {
		i := places.of(&c)
		departed = departed || i < 0
		p := place{Session: c.Session, ID: c.ID, Try: c.Try, Token: c.Token, Ahead: max(i, 0)}
		switch {
		case c.Held && (i >= 0 || c.Engine == e.address):
		case i < 0:
			of(c).Gone = append(of(c).Gone, p)
		case is[i].Held:
			of(c).Held = append(of(c).Held, p)
		}
	}
	if was, n := was.first(), is.held(); n > 0 && n < len(is) && was != "" && was != is[n].ID {
		c := is[n]
		to := of(c)
		to.First, to.Within = &place{Session: c.Session, ID: c.ID, Try: c.Try, Ahead: n}, is[0].ttl()/3
	}
	for i := len(is) - 1; i >= 0 && is[i].Engine != e.address && was.find(is[i].ID) < 0; i-- {
		c := is[i]
		of(c).Entered = append(of(c).Entered, place{Session: c.Session, ID: c.ID, Try: c.Try, Ahead: i, Held: c.Held})
	}
	granted := 0
	for _, n := range notices {
		if n.grants() {
			granted++
		}
	}
	for _, n := range notices {
		if n.grants() && granted*len(data) <= maxNotices {
			n.Line = data
		}
	}
	return notices, departed
}

// put writes a line. An engine whose claim is held then is told with the write, if the store
// can do that.
func (e *Engine) put(ctx context.Context, key string, v Value, keep time.Duration, news map[string]*notice) (revision uint64, told string, err error) {
	if teller, ok := e.store.(Teller); ok && e.hears() {
		for engine, n := range news {
			if n.grants() && engine != e.address && strings.HasPrefix(engine, helps) {
				revision, err = teller.PutTelling(ctx, key, v, keep, turnAddress+engine, n.text())
				return revision, engine, err
			}
		}
	}
	revision, err = e.store.Put(ctx, key, v, keep)
	return revision, "", err
}

// tell tells of a change those whom it concerns: those who have not been told the news, the
// engine of the only holder when another begins to wait for it, and those who watch for
// departures.
func (e *Engine) tell(name string, was, is line, news map[string]*notice, told string, departed bool, revision uint64) {
	for engine, n := range news {
		if n.Revision = revision; engine != told {
			e.send(engine, n)
		}
	}
	if departed {
		e.store.Notify(leftAddress+encode(name), "")
	}
	if is.blocked(was) && is[0].Engine != e.address && was.find(is[0].ID) == 0 {
		e.send(is[0].Engine, &notice{Name: name, Revision: revision, Arrived: true})
	}
}

// hears reports whether notices reach this engine; then it may send any.
func (e *Engine) hears() bool {
	generation, _, err := e.turns.State()
	return err == nil && generation != 0
}

func (e *Engine) send(engine string, n *notice) {
	if engine == e.address {
		e.receive(n)
		return
	}
	e.store.Notify(turnAddress+engine, n.text())
}

// grants reports whether a claim of the engine is held now that was not.
func (n *notice) grants() bool {
	return len(n.Held) > 0 || slices.ContainsFunc(n.Entered, func(p place) bool { return p.Held })
}

func (n *notice) text() string {
	text, err := json.Marshal(n)
	if err != nil {
		panic(err) // it has only texts, numbers, and a line that was written
	}
	return string(text)
}

// hear takes a notice as it was sent, with the revision behind it if it came with a write.
func (e *Engine) hear(text string) {
	var n notice
	decoder := json.NewDecoder(strings.NewReader(text))
	if decoder.Decode(&n) != nil {
		return
	}
	if n.Revision == 0 {
		_ = decoder.Decode(&n.Revision)
	}
	e.receive(&n)
}

// receive takes a notice to the claims of this engine that it concerns.
func (e *Engine) receive(n *notice) {
	if n.Arrived {
		e.refresh(n.Name)
		return
	}
	if len(n.Enter)+len(n.Leave) > 0 {
		e.serve(n)
	}
	e.asks.served(n.Name, n.Withdrawn, nil)
	var left line // it was not told of them, for they were passed on
	for _, c := range n.Asked {
		if !e.with(c, func(p *driverkit.Claimed[claimState]) { p.State.hear(c) }) {
			left = append(left, claim{ID: c.ID, Try: c.Try})
		}
	}
	if len(left) > 0 {
		e.send(n.From, &notice{Name: n.Name, Withdrawn: left})
	}
	for _, c := range n.Entered {
		c.Token = n.Revision
		e.inLine(n.Name, c, func(p *driverkit.Claimed[claimState]) { p.State.hear(c) })
	}
	if l, err := read(Value{Data: n.Line, Revision: n.Revision}); err == nil && l != nil {
		e.known.set(n.Name, l, n.Revision)
	} else if len(n.Held) > 0 {
		e.known.forget(n.Name, n.Revision)
		e.refresh(n.Name)
	}
	for _, c := range n.Gone {
		e.with(c, func(p *driverkit.Claimed[claimState]) {
			p.State.suspect = true
			p.State.tellLeft(true)
			p.Waiter.Wake()
		})
	}
	if n.First != nil {
		e.inLine(n.Name, *n.First, func(p *driverkit.Claimed[claimState]) {
			p.State.ahead = n.First.Ahead
			p.Waiter.LookWithin(n.Within)
		})
	}
	for _, c := range n.Held {
		e.inLine(n.Name, c, func(p *driverkit.Claimed[claimState]) {
			c.Held = true
			p.State.hear(c)
			p.State.tellLeft(false)
			p.State.grant = &driver.Standing{Held: true, Token: c.Token, Ahead: c.Ahead}
			p.Waiter.Notify()
		})
	}
}

// with calls f with a claim of this engine, and reports whether it is one.
func (e *Engine) with(c place, f func(*driverkit.Claimed[claimState])) bool {
	s, ok := e.sessions.Find(c.Session)
	return ok && s.claims.With(c.ID, c.Try, f)
}

// inLine is with for a claim that is in line. One that has left was entered by another engine
// since, and leaves again.
func (e *Engine) inLine(name string, at place, f func(*driverkit.Claimed[claimState])) {
	s, ok := e.sessions.Find(at.Session)
	if !ok || s.claims.With(at.ID, at.Try, f) {
		return
	}
	e.stray(s, driver.Claim{ID: at.ID, Try: at.Try, Name: name})
}

// hear takes what a notice says of a claim that another engine was asked to enter.
func (s *claimState) hear(at place) {
	if s.asked == nil || at.Token == 0 && len(s.asked.answer) > 0 { // there is room for the last one
		return
	}
	s.token = max(s.token, at.Token) // a grant may come before Enter has returned
	select {
	case s.asked.answer <- at:
	default: // it was heard before
	}
}

// tellLeft tells a Leave that waits for another engine that this has taken the claim out, or that
// the claim is held now.
func (s *claimState) tellLeft(gone bool) {
	select {
	case s.left <- gone: // nobody waits for nil
	default: // it is known
	}
	if gone {
		s.left = nil
	}
}

// helper returns the engine of a claim in line if that can be asked; "" if not.
func (e *Engine) helper(l line, i int) string {
	if i >= len(l) || l[i].Engine == e.address || !strings.HasPrefix(l[i].Engine, helps) || !e.hears() {
		return ""
	}
	return l[i].Engine
}
