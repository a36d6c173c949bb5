package sqlline

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

const (
	// inflightGrace is how long a batch that enters claims may go on after its caller's
	// ctx has ended. A request that was sent cannot be taken back: mostly its answer
	// comes within this time, and it is known what was entered.
	inflightGrace = 100 * time.Millisecond
	// arriveWithin is how long after that Close expects the request to arrive.
	arriveWithin = time.Second
)

// An inflight is a batch that enters claims.
type inflight struct {
	args  []sqlstore.Args // as they were sent
	done  chan struct{}   // closed when the batch has returned
	until time.Time       // if its outcome is unknown: when it has arrived or never will; set before done is closed
}

// enterInflight runs a batch that enters the claims of args. If the store is remote and
// the caller gave up, the session remembers the batch until no part of it can arrive any
// more, so that Close ends what it entered. It does not remember a batch whose connection
// broke: what the server had received of it is executed at once, or waits for a row that a
// Leave waits for behind it, and what got stuck on the way beyond that expires.
//
// The batch runs in the caller's goroutine, which returns at most inflightGrace after
// its ctx has ended: a goroutine for every batch would make taking a free name a fifth
// slower.
func (s *session) enterInflight(ctx context.Context, args []*sqlstore.Args, run func(context.Context) error) error {
	if !s.e.d.Remote {
		return run(ctx)
	}
	x := &inflight{args: make([]sqlstore.Args, len(args)), done: make(chan struct{})}
	for i, a := range args {
		x.args[i] = *a
	}
	if err := s.addInflight(x); err != nil {
		return err
	}
	// Not cancelled once the batch has returned: its connection is in use by another
	// caller then.
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer context.AfterFunc(s.life, cancel)()
	defer context.AfterFunc(ctx, func() { // ends with done
		grace := time.NewTimer(inflightGrace)
		defer grace.Stop()
		select {
		case <-grace.C:
			cancel()
		case <-x.done:
		}
	})()
	err := run(life)
	unknown := life.Err() != nil && err != nil
	s.returned(x, unknown)
	if unknown && s.life.Err() != nil {
		return fmt.Errorf("%w: %w", driver.ErrGone, err)
	}
	return sqlstore.WithCtxErr(ctx, err)
}

// addInflight adds a batch that is about to be sent.
func (s *session) addInflight(x *inflight) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.claims.Closed() {
		return driver.ErrGone
	}
	for o := range s.inflight {
		if !o.until.IsZero() && time.Now().After(o.until) {
			delete(s.inflight, o)
		}
	}
	s.inflight[x] = struct{}{}
	return nil
}

// returned notes that a batch has returned, and whether its outcome is unknown.
func (s *session) returned(x *inflight, unknown bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if unknown {
		x.until = time.Now().Add(arriveWithin)
	} else {
		delete(s.inflight, x)
	}
	close(x.done)
}
