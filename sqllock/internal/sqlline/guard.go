package sqlline

import (
	"context"
	"fmt"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// Guard is sqllock.Guard.
func Guard(ctx context.Context, tx any, lease driver.Grant) error {
	if several, ok := lease.(interface{ Grants() []driver.Grant }); ok {
		for _, one := range several.Grants() {
			if err := guardLease(ctx, tx, one); err != nil {
				return err
			}
		}
		return nil
	}
	return guardLease(ctx, tx, lease)
}

func guardLease(ctx context.Context, tx any, lease driver.Grant) error {
	held, err := guardHold(ctx, tx, lease)
	// The row is locked now. A lease that ended, or was passed on, while we waited for
	// the row must not be committed under.
	if ended := lease.Err(); err == nil && ended != nil {
		err = ended
	}
	if err == nil && !held {
		err = fmt.Errorf("%w: the lease is not held any more", driver.ErrGone)
	}
	if err != nil {
		return fmt.Errorf("guard %q: %w", lease.Name(), err)
	}
	return nil
}

func guardHold(ctx context.Context, tx any, lease driver.Grant) (held bool, err error) {
	if err := lease.Err(); err != nil {
		return false, err
	}
	s, c := sessionOf(lease.ID())
	if s == nil {
		return false, fmt.Errorf("%w: the lease is not of an open SQL engine of this process", driver.ErrUnsupported)
	}
	// The hold is pinned before its row is locked: if it were passed on in between, one
	// row would guard two leases at a time.
	turn := 0
	if p, ok := lease.(driver.Pinner); ok {
		if turn, err = p.Pin(); err != nil {
			return false, err
		}
	}
	until, held, err := s.touchForLease(ctx, tx, c, lease, turn)
	if err != nil || !held {
		return false, err
	}
	return s.e.lockHold(ctx, tx, c, lease.Fence(), until)
}

// lockHold locks the row of c in tx. until is the expiry that the transaction's snapshot
// must show.
func (e *Engine) lockHold(ctx context.Context, tx any, c driver.Claim, fence uint64, until int64) (held bool, err error) {
	u := e.d.UserTx
	if u == nil {
		return false, fmt.Errorf("%w: %s has no guards", driver.ErrUnsupported, e.d.Name)
	}
	a := e.claimArgs(c)
	a.Num[sqlstore.Token] = int64(fence)
	a.Num[sqlstore.Version] = until
	if u.Clock != nil {
		a.Num[sqlstore.Now] = u.Clock()
	}
	lock, see := e.q.GuardClaim, e.q.SeeClaim
	if c.Exclusive() {
		lock, see = e.q.GuardHold, e.q.SeeHold
	}
	held, err = u.Run(ctx, tx, lock, a, nil)
	if err == nil && held && u.ReadsOldSnapshot {
		var seen bool
		if seen, err = u.Run(ctx, tx, see, a, nil); err == nil && !seen {
			return false, errOldSnapshot
		}
	}
	if err == nil && !held {
		var kept bool
		if kept, err = u.SnapshotKept(ctx, tx); err == nil && kept {
			return false, fmt.Errorf("%w; or the lease is %w", errOldSnapshot, driver.ErrGone)
		}
	}
	if err != nil && u.IsStale != nil && u.IsStale(err) {
		err = fmt.Errorf("%w (%w)", errOldSnapshot, err)
	}
	return held, err
}

// errOldSnapshot explains a refusal because of the isolation level.
var errOldSnapshot = fmt.Errorf("%w: the transaction sees the database as it was before the lease was granted or last renewed; "+
	"under this isolation level Guard must be its first statement", driver.ErrUnsupported)
