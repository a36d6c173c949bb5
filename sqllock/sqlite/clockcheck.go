package sqlite

import (
	"fmt"

	"github.com/ncruces/go-sqlite3"
)

// A clockMatch is how the clock of the expiries in a file relates to this process's.
type clockMatch int

const (
	sameName  clockMatch = iota // the same clock, by its name
	sameClock                   // the same clock under another name: claims stay as they are
	goneClock                   // a clock of an earlier boot, and with it no holder: no claim stands
)

// compareClock finds out whether the expiries in the file are on this process's clock. It
// runs inside a transaction, so that no claim is added meanwhile.
//
// The names of boot and time namespace alone do not suffice. A container may have another
// boot id than its host (systemd-nspawn), on the same kernel: taken for a restart, it
// would free every live holder. But a lock on a liveness file is the kernel's, whatever a
// container is shown, and does not outlive it. So a holder whose liveness file is locked
// is of this boot, and if it is in this time namespace too, its clock is ours. Only
// claims without a live owner can be of an earlier boot.
//
// A process that is merely opening the file holds nothing yet, so within one namespace
// only the owners of claims count. A process of another time namespace that has the file
// open may add a claim at any moment, by its own clock, so there every live process
// counts.
func (c *conn) compareClock(l *liveness) (clockMatch, error) {
	boot, namespace, err := c.readClock()
	if err != nil {
		return sameName, err
	}
	ourBoot, ours := c.clock.boot, c.clock.namespace
	if boot == ourBoot && namespace == ours {
		return sameName, nil
	}
	var ids []string
	if err := c.query("SELECT x_live FROM pawl_head WHERE x_id <> '' UNION SELECT live FROM pawl_claim", func(s *sqlite3.Stmt) {
		ids = append(ids, s.ColumnText(0))
	}); err != nil {
		return sameName, err
	}
	if namespace != ours {
		others, err := l.others()
		if err != nil {
			return sameName, err
		}
		ids = append(ids, others...)
	}
	match := goneClock
	for _, id := range ids {
		switch st := l.state(id); {
		case st == unknown:
			return sameName, fmt.Errorf("sqlite: whether this machine has restarted since the file was last used cannot be determined "+
				"while %s in %s cannot be read: give the right to, or remove it if no process holds a lock here", id, l.dir)
		case l.inOtherNamespace(id) && (st == alive || st == missing && boot == ourBoot):
			return sameName, fmt.Errorf("sqlite: the file is in use by a process in another time namespace (%s, this one is %s), "+
				"whose clock differs: run both in the same one, or stop the other first", namespace, ours)
		case st == alive && namespace == ours:
			match = sameClock
		}
	}
	return match, nil
}

// readClock returns the boot and the time namespace whose clock the expiries are on.
func (c *conn) readClock() (boot, namespace string, err error) {
	err = c.query("SELECT boot, space FROM pawl_meta WHERE one = 1", func(s *sqlite3.Stmt) {
		boot, namespace = s.ColumnText(0), s.ColumnText(1)
	})
	return boot, namespace, err
}
