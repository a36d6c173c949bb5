package planted

import (
	"context"
	"iter"
	"slices"

	"github.com/pawl-go/pawl/driver"
)

// What bugs do with lines. All of it is called with the store's mutex held. Calls of the
// memory engine fail only if the engine or the session is closed: then nobody is misled
// any more, so bugs ignore that.

// entries returns the claims of a name, in order.
func (t *store) entries(name string) []driver.Entry {
	all, _ := t.Line(context.Background(), name)
	return all
}

func (t *store) held(name string) []driver.Entry {
	return slices.DeleteFunc(t.entries(name), func(e driver.Entry) bool { return !e.Held })
}

func (t *store) waiting(name string) []driver.Entry {
	return slices.DeleteFunc(t.entries(name), func(e driver.Entry) bool { return e.Held })
}

// find returns exactly this try of c.
func (t *store) find(c driver.Claim) (driver.Entry, bool) {
	all := t.entries(c.Name)
	i := slices.IndexFunc(all, func(e driver.Entry) bool { return e.ID == c.ID && e.Try == c.Try })
	if i < 0 {
		return driver.Entry{}, false
	}
	return all[i], true
}

// everything yields all claims of all names.
func (t *store) everything() iter.Seq[driver.Entry] {
	return func(yield func(driver.Entry) bool) {
		for e := range t.List(context.Background(), "") {
			if !yield(e) {
				return
			}
		}
	}
}

// end ends a claim behind its client's back.
func (t *store) end(e driver.Entry) { _ = t.Evict(context.Background(), e) }

// toBack moves a claim to the end of its line.
func (t *store) toBack(e driver.Entry) {
	s := t.sessions[e.Session]
	if s == nil {
		return
	}
	t.end(e)
	_, _ = s.memory.Enter(context.Background(), e.Claim)
}

// toFront moves a waiting claim before all others that wait.
func (t *store) toFront(c driver.Claim) {
	for _, e := range t.waiting(c.Name) {
		if e.ID != c.ID {
			t.toBack(e)
		}
	}
}

// prolong beats claims, whoever's they are.
func (t *store) prolong(all []driver.Entry) {
	for _, e := range all {
		if s := t.sessions[e.Session]; s != nil {
			_ = s.memory.Beat(context.Background(), []driver.Claim{e.Claim}, make([]driver.Standing, 1))
		}
	}
}

// mint returns a token from the memory engine's own counter, which counts the versions of
// records too.
func (t *store) mint() uint64 {
	v, err := t.Store(context.Background(), "mint", []byte{1}, t.minted, 0)
	if err == nil {
		t.minted = v
	}
	return v
}

// forged is the answer that a claim is held which the line does not have as such.
func (s *session) forged() driver.Standing {
	return driver.Standing{Held: true, Token: s.store.mint(), Valid: s.ttl}
}

// look answers how c stands in the line.
func (s *session) look(c driver.Claim) driver.Standing {
	e, ok := s.store.find(c)
	return driver.Standing{Held: e.Held, Gone: !ok, Token: e.Fence, Ahead: -1}
}

// stand answers as Enter does for a claim that is in the line already.
func (s *session) stand(c driver.Claim) driver.Standing {
	st := s.look(c)
	st.Valid = s.ttl
	return st
}

func (s *session) memEnter(c driver.Claim) (driver.Standing, error) {
	return s.memory.Enter(context.Background(), c)
}

func (s *session) memLeave(c driver.Claim) error { return s.memory.Leave(context.Background(), c) }

func (s *session) memBeat(live []driver.Claim, out []driver.Standing) error {
	return s.memory.Beat(context.Background(), live, out)
}

// leak makes a claim live as long as its session is beaten, whoever still knows it.
func (s *session) leak(c driver.Claim) { s.leaked = append(s.leaked, c) }

func isCounted(c driver.Claim) bool { return c.Limit > 1 && c.Limit < driver.All }
func isReader(c driver.Claim) bool  { return c.Limit == driver.All && c.Need < c.Limit }
