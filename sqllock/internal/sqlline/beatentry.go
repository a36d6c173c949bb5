package sqlline

import (
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// A beatEntry is one claim in a beat.
type beatEntry struct {
	claim driver.Claim
	args  *sqlstore.Args
	seen  location
	out   *driver.Standing // the answer

	inHead, inLine, held, found bool // what the last batch has seen of it

	// heldToken is the token under which the claim was last seen to hold; 0 if it was
	// not. A hold keeps its token. A row with another token was left by an Enter that
	// was sent before the hold was broken and arrived after: the hold itself has ended,
	// and another claim may have held the name since.
	heldToken int64
	replaced  bool // such a row was found

	timedOut bool // the last beat waited for its row until its time was over
}

func (p *beatEntry) isAnswered() bool { return p.out.Valid != 0 || p.out.Gone }

// isSame reports whether token is the hold's own, and remembers if it is not.
func (p *beatEntry) isSame(token int64) bool {
	p.replaced = p.replaced || p.heldToken != 0 && token != p.heldToken
	return !p.replaced
}

// seenInHead stores that the claim is in the head row.
func (p *beatEntry) seenInHead(token int64) {
	if p.isSame(token) {
		p.inHead, p.seen = true, location{token: token, inHead: true}
	}
}

// seenInLine stores that the claim is in the claim table.
func (p *beatEntry) seenInLine(held int64) {
	p.inLine, p.held = true, held != 0
	p.seen.inHead, p.seen.waiting = false, held == 0
}
