package sqllock

import "github.com/pawl-go/pawl/driver"

// A pulse is one claim in a beat.
type pulse struct {
	c    driver.Claim
	a    *Args
	spot spotHint
	st   *driver.Standing // where it is answered

	inHead, inLine, held, found bool // what the last flight has seen of it

	// was is the token under which it was last seen to hold; 0 if it was not. A hold
	// keeps its token. Under another one stands what an Enter has left that was sent
	// before the hold was broken and arrived after: the hold itself has ended, and
	// somebody else may have had the name since.
	was   int64
	other bool // such a one was met

	vain bool // its row was waited for in vain, by the last beat
}

func (p *pulse) hopeful() bool { return !p.vain }

func (p *pulse) answered() bool { return p.st.Valid != 0 || p.st.Gone }

// same reports whether a token is the hold's own, and notes it if not.
func (p *pulse) same(token int64) bool {
	p.other = p.other || p.was != 0 && token != p.was
	return !p.other
}

// head notes that the claim was met in the head row.
func (p *pulse) head(token int64) {
	if p.same(token) {
		p.inHead, p.spot = true, spotHint{token: token, head: true}
	}
}

// line notes that the claim was met in the line.
func (p *pulse) line(held int64) {
	p.inLine, p.spot.head, p.spot.waits, p.held = true, false, held == 0, held != 0
}
