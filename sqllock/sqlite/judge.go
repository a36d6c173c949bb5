package sqlite

import (
	"fmt"

	"github.com/ncruces/go-sqlite3"
)

// A tie is what the clock in the file is to this process's.
type tie int

const (
	ours  tie = iota // the same, by its name
	same             // the same under another name: claims stand as they are
	ended            // it exists no more, and with it no holder: no claim stands
)

// judge finds out whether the expiries in the file are on this process's clock.
// It runs inside a transaction, so that no claim comes meanwhile.
//
// The names of boot and time namespace alone do not tell. A container may have
// another boot id than its host (systemd-nspawn), on the same kernel: taken for a
// restart, it would free every holder that is alive. But a lock on a liveness file
// is the kernel's, whatever a container is shown, and does not outlive it. So a
// holder whose file is locked is of this boot, and if it is in this time
// namespace too, then its clock is ours. Only what nobody alive holds can be of an
// earlier boot.
//
// A process that is merely opening the file holds nothing yet, so only those
// named by a claim count for that; but one of another time namespace that is open
// may claim at any moment, by its own clock, so there every live one counts.
func (c *conn) judge(cs *census) (tie, error) {
	var boot, space string
	if err := c.each("SELECT boot, space FROM pawl_meta WHERE one = 1", func(s *sqlite3.Stmt) {
		boot, space = s.ColumnText(0), s.ColumnText(1)
	}); err != nil {
		return ours, err
	}
	mine, myspace := c.clock.boot(), c.clock.space()
	if boot == mine && space == myspace {
		return ours, nil
	}
	var ids []string
	if err := c.each("SELECT x_live FROM pawl_head WHERE x_id <> '' UNION SELECT live FROM pawl_claim", func(s *sqlite3.Stmt) {
		ids = append(ids, s.ColumnText(0))
	}); err != nil {
		return ours, err
	}
	if space != myspace {
		others, err := cs.others()
		if err != nil {
			return ours, err
		}
		ids = append(ids, others...)
	}
	t := ended
	for _, id := range ids {
		switch l := cs.life(id); {
		case l == unknown:
			return ours, fmt.Errorf("sqlite: whether this machine has restarted since the file was last used cannot be told "+
				"while %s in %s cannot be read: give the right to, or remove it if nobody holds a lock here", id, cs.dir)
		case cs.stranger(id) && (l == alive || l == missing && boot == mine):
			return ours, fmt.Errorf("sqlite: the file is in use by a process in another time namespace (%s, this one is %s), "+
				"whose clock differs: run both in the same one, or stop the other first", space, myspace)
		case l == alive && space == myspace:
			t = same
		}
	}
	return t, nil
}
