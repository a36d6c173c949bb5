package kvline

import (
	"encoding/json"
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
}

// A place is how a claim stands.
type place struct {
	Session string `json:"session"`
	ID      string `json:"id"`
	Try     int    `json:"try"`
	Token   uint64 `json:"token,omitempty"`
	Ahead   int    `json:"ahead,omitempty"`
}

const (
	turnAddress = "turn." // and the address of the engine
	leftAddress = "left." // and the name
)

// tell tells of a change those whom it concerns: the engines of claims that are held now
// or were ended by others, the engine of the one who is the first to wait now, the engine of the
// only holder when another begins to wait for it, and those who watch for departures.
func (e *Engine) tell(name string, was, is line, v Value) {
	notices := map[string]*notice{} // by engine
	of := func(c claim) *notice {
		if notices[c.Engine] == nil {
			notices[c.Engine] = &notice{Name: name, Revision: v.Revision}
		}
		return notices[c.Engine]
	}
	departed := false
	for _, c := range was {
		i := is.find(c.ID)
		if i >= 0 && is[i].Try != c.Try { // a later try has another place
			i = -1
		}
		departed = departed || i < 0
		p := place{Session: c.Session, ID: c.ID, Try: c.Try, Token: c.Token, Ahead: i}
		switch {
		case c.Held && (i >= 0 || c.Engine == e.address):
		case i < 0:
			p.Ahead = 0
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
	granted := 0
	for _, n := range notices {
		if len(n.Held) > 0 {
			granted++
		}
	}
	for engine, n := range notices {
		if len(n.Held) > 0 && granted*len(v.Data) <= maxNotices {
			n.Line = v.Data
		}
		e.send(engine, n)
	}
	if departed {
		e.store.Notify(leftAddress+encode(name), "")
	}
	if is.blocked(was) && is[0].Engine != e.address {
		e.send(is[0].Engine, &notice{Name: name, Revision: v.Revision, Arrived: true})
	}
}

func (e *Engine) send(engine string, n *notice) {
	if engine == e.address {
		e.receive(n)
		return
	}
	text, err := json.Marshal(n)
	if err != nil {
		panic(err) // it has only texts, numbers, and a line that was written
	}
	e.store.Notify(turnAddress+engine, string(text))
}

// hear takes a notice as it was sent.
func (e *Engine) hear(text string) {
	var n notice
	if json.Unmarshal([]byte(text), &n) == nil {
		e.receive(&n)
	}
}

// receive takes a notice to the claims of this engine that it concerns.
func (e *Engine) receive(n *notice) {
	if n.Arrived {
		e.refresh(n.Name)
		return
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
			p.Waiter.Wake()
		})
	}
	if n.First != nil {
		e.with(*n.First, func(p *driverkit.Claimed[claimState]) {
			p.State.ahead = n.First.Ahead
			p.Waiter.LookWithin(n.Within)
		})
	}
	for _, c := range n.Held {
		e.with(c, func(p *driverkit.Claimed[claimState]) {
			p.State.grant = &driver.Standing{Held: true, Token: c.Token, Ahead: c.Ahead}
			p.Waiter.Notify()
		})
	}
}

func (e *Engine) with(c place, f func(*driverkit.Claimed[claimState])) {
	if s, ok := e.sessions.Find(c.Session); ok {
		s.claims.With(c.ID, c.Try, f)
	}
}
