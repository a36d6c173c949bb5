package memlock

import (
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

// nowLocked is the time by the engine's clock, by which claims expire.
func (e *Engine) nowLocked() time.Time { return time.Now().Add(e.ahead) }

// lines are the lines of all names in which there is a claim.
type lines struct {
	byName   map[string]*line
	watchers driverkit.Watchers
	mint     func(*place) // a new token
}

// A line is the claims of one name in order of arrival.
type line struct {
	name   string
	claims []*claim
}

// A claim is one of a session's claims, with its place in the line.
type claim = driverkit.Claimed[place]

// A place is what a line knows of a claim. Its token is minted on arrival: the line is
// first come first served, so the order of arrival is the order of holding. At a quorum's
// node it is minted anew when the claim is let in: others may have confirmed higher ones.
type place struct {
	session string
	claims  *driverkit.Claims[place] // of the session
	token   uint64
	granted uint64 // the token as it was minted; Confirm may raise token
	epoch   uint64 // of the node when it was minted
	held    bool
	inLine  bool      // of a session of a quorum: a token is minted when it is let in
	since   time.Time // of arrival, then of holding
	until   time.Time
}

// visibleToken is the token as others may see it: a claim that waits has none yet.
func (p *place) visibleToken() uint64 {
	if p.held {
		return p.token
	}
	return 0
}

// left has a session forget a claim that is not in a line any more, and wakes its Await.
func left(p *claim) { p.State.claims.End(p.Claim) }

// settled returns the line of a name, with expired claims ended and those that fit now
// held. A name without claims has an empty line, which is not kept.
func (t *lines) settled(name string, now time.Time) *line {
	l := t.byName[name]
	if l == nil {
		return &line{name: name}
	}
	t.settle(l, now)
	return l
}

// append puts a claim at the end of a line, and settles that.
func (t *lines) append(l *line, p *claim, now time.Time) {
	l.claims = append(l.claims, p)
	t.byName[l.name] = l
	t.settle(l, now)
}

// withdraw takes back the last append, of a claim that is not held and does not queue.
// It is no departure: the claim was never in line.
func (t *lines) withdraw(l *line) {
	last := len(l.claims) - 1
	left(l.claims[last])
	l.claims = l.claims[:last]
}

// end takes one claim out of its line.
func (t *lines) end(l *line, i int, now time.Time) {
	left(l.claims[i])
	l.claims = slices.Delete(l.claims, i, i+1)
	t.watchers.Notify(l.name)
	t.settle(l, now)
}

// settle ends expired claims, and grants and wakes every claim that fits now. It forgets
// an empty line.
func (t *lines) settle(l *line, now time.Time) {
	before := len(l.claims)
	l.claims = slices.DeleteFunc(l.claims, func(p *claim) bool {
		expired := !p.State.until.After(now)
		if expired {
			left(p)
		}
		return expired
	})
	if len(l.claims) < before {
		t.watchers.Notify(l.name)
	}
	for _, p := range l.claims {
		if p.State.held {
			continue
		}
		if !l.fits(p.Claim.ID) {
			break // it is ahead of all the others, so none of them fits
		}
		p.State.held, p.State.since = true, now
		if p.State.inLine {
			t.mint(&p.State)
		}
		p.Waiter.Wake()
	}
	if len(l.claims) == 0 {
		delete(t.byName, l.name)
	}
}

// clear ends all claims at once, without granting any.
func (t *lines) clear() {
	for name, l := range t.byName {
		for _, p := range l.claims {
			left(p)
		}
		t.watchers.Notify(name)
	}
	clear(t.byName)
}

func (l *line) find(id string) int {
	return slices.IndexFunc(l.claims, func(p *claim) bool { return p.Claim.ID == id })
}

// fits asks driver.Place whether a claim of this line is held.
func (l *line) fits(id string) bool {
	if len(l.claims) == 1 {
		return true // the common case, without building a line
	}
	entries := make([]driver.Entry, len(l.claims))
	for i, p := range l.claims {
		entries[i].Claim = p.Claim
	}
	held, _, _, _ := driver.Place(entries, id)
	return held
}

func (l *line) entries(now time.Time) []driver.Entry {
	all := make([]driver.Entry, len(l.claims))
	for i := range l.claims {
		all[i] = l.entry(i, now)
	}
	return all
}

func (l *line) entry(i int, now time.Time) driver.Entry {
	p := &l.claims[i].State
	return driver.Entry{
		Claim:   l.claims[i].Claim,
		Session: p.session,
		Held:    p.held,
		Fence:   p.visibleToken(),
		Since:   now.Sub(p.since),
		Left:    p.until.Sub(now),
	}
}

// standing answers for the claim at i; promised is what this call promises.
func (l *line) standing(i int, now time.Time, promised time.Duration) driver.Standing {
	p := &l.claims[i].State
	st := driver.Standing{Held: p.held, Ahead: i, Valid: promised}
	if p.held {
		st.Token, st.Epoch = p.token, p.epoch
		return st
	}
	first := l.claims[0].State.until
	for _, ahead := range l.claims[1:i] {
		if ahead.State.until.Before(first) {
			first = ahead.State.until
		}
	}
	st.Pause = first.Sub(now)
	holder := l.entry(0, now)
	st.Holder = &holder
	return st
}
