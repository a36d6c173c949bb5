// Package multi takes several locks as one: all or none.
//
// Names that are all free are taken in one atomic step, where the engine can. Where
// one must be waited for, they are taken one after the other, sorted, so two who name
// them in opposite orders cannot wait for each other. While a later name is waited
// for, the earlier ones are held; so take together what belongs together, and no more.
package multi

import (
	"context"
	"fmt"

	"github.com/pawl-go/pawl"
)

// A Lease is several held locks. It ends when any of them is lost, and Unlock
// gives all of them back.
type Lease struct{ *pawl.Lease }

// Lock waits until all names are held. ctx, and the client's WithWait, bound the
// whole wait; when it ends, nothing is held, but on a store that does not answer:
// what is held there is given back behind it. [pawl.ErrLost] says that a name was lost
// while another was waited for. A name given twice is taken once.
func Lock(ctx context.Context, c *pawl.Client, names ...string) (*Lease, error) {
	return lease(c.LockAll(ctx, names...))
}

// TryLock takes all names now, or none and returns [pawl.ErrHeld]; *[pawl.Error]
// says which name was held and *[pawl.HeldError] by whom.
func TryLock(ctx context.Context, c *pawl.Client, names ...string) (*Lease, error) {
	return lease(c.TryLockAll(ctx, names...))
}

func lease(l *pawl.Lease, err error) (*Lease, error) {
	if err != nil {
		return nil, err
	}
	return &Lease{l}, nil
}

// Token returns the fencing token of one of the names: each name has its own, and
// only it is ordered among the holders of that name. It panics on a name that was
// not asked for.
func (l *Lease) Token(name string) uint64 {
	for _, part := range l.Parts() {
		if part.Name() == name {
			return part.Token()
		}
	}
	panic(fmt.Sprintf("multi: Token of %q, which is not one of the names", name))
}

// Names returns the names, in the order they were taken in.
func (l *Lease) Names() (names []string) {
	for _, part := range l.Parts() {
		names = append(names, part.Name())
	}
	return names
}
