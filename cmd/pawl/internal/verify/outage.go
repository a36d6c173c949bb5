package verify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/history"
)

// away is the fault of a store that did not answer the coordinator, whose link has no
// faults: clients that could not renew have lost their places in line.
const away = "store away"

// awayForGood is how long a store may be away before the run is given up.
const awayForGood = 30 * time.Second

// watchStore records when the store was away until ctx ends, and calls giveUp if it stays
// away.
func (r *run) watchStore(ctx context.Context, c *pawl.Client, giveUp func(error)) {
	every, most := r.TTL/10, r.TTL/3 // beats are sent three times in a TTL
	last := now()                    // when the last question that was answered was asked
	back := func() {
		if at := now(); at-last > history.Time(every+most) {
			r.recorder.fault(history.Fault{Client: history.AllClients, Kind: away, From: last, To: at})
		}
	}
	defer back() // or it is still away
	for ctx.Err() == nil {
		asked := now()
		call, cancel := context.WithTimeout(ctx, most)
		err := r.ask(call, c)
		cancel()
		if err == nil {
			back()
			last = asked
		} else if now()-last > history.Time(awayForGood) {
			giveUp(fmt.Errorf("no answer for %v", awayForGood))
		}
		rest(ctx, every)
	}
}

// ask has the store write something: it confirms the lease of probeName, or takes another
// where that was lost. A store that only reads is away too.
func (r *run) ask(ctx context.Context, c *pawl.Client) error {
	if err := r.probe.Confirm(ctx); !errors.Is(err, pawl.ErrLost) {
		return err
	}
	l, err := c.Mutex(r.Prefix + probeName).TryLock(ctx)
	switch {
	case err == nil:
		r.probe = l
	case errors.Is(err, pawl.ErrHeld):
		return nil // the claim that was lost is still there
	}
	return err
}
