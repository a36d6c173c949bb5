package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-go/pawl/sqllock"
)

const (
	// listenTrial is how long a notice to ourselves may take before LISTEN is
	// taken not to work on this connection, as through some poolers.
	listenTrial = 2 * time.Second
	// listenAgain is how long turns are looked for before LISTEN is tried again.
	listenAgain = 30 * time.Second
	// listenSoon is the same after a connection that worked has ended.
	listenSoon = 200 * time.Millisecond

	// listenIdle is how long a connection listens though nobody waits.
	listenIdle = time.Minute

	// probeEvery is how often a connection on which nothing was heard is asked whether
	// it still leads to the server, while somebody waits, and probePatience how long
	// its answer may take.
	probeEvery    = 15 * time.Second
	probePatience = time.Second

	noticeRun = 200 // ids in one notice, which holds less than 8000 bytes
)

// attend is told of turns on one connection that listens, and looks for them
// while there is none, as behind a pooler that hands out connections by transaction.
// A notice to ourselves shows whether notices arrive: a pooler may not tell what it is.
func (s *store) attend(ctx context.Context, w sqllock.Waiters) {
	for w.Wanted(ctx) == nil {
		c, err := s.connect(ctx, w)
		worked := false
		if err == nil {
			worked = s.hear(ctx, c, w)
			end(c)
		}
		pause := listenAgain
		if worked || err != nil && !errors.Is(err, errPooled) {
			pause = listenSoon
		}
		resting, cancel := context.WithTimeout(ctx, pause)
		look(resting, w)
		cancel()
	}
}

// connect makes a connection that listens, and looks for turns meanwhile: that takes
// long where the network swallows what is sent.
func (s *store) connect(ctx context.Context, w sqllock.Waiters) (c *pgx.Conn, err error) {
	looking, done := context.WithCancel(ctx)
	var dial sync.WaitGroup
	dial.Go(func() { // ends with ctx or after a while; awaited below
		defer done()
		c, err = s.listener(ctx)
	})
	look(looking, w)
	dial.Wait()
	return c, err
}

// look polls until ctx ends.
func look(ctx context.Context, w sqllock.Waiters) {
	for ctx.Err() == nil && w.Wanted(ctx) == nil {
		stirred := w.Stirred()
		next, _ := w.Poll(ctx, true) // an error is met again soon enough
		t := time.NewTimer(next)
		select {
		case <-t.C:
		case <-stirred:
		case <-ctx.Done():
		}
		t.Stop()
	}
}

// listener makes a connection that listens.
func (s *store) listener(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	cfg, err := s.beatSource(ctx).config(ctx) // which does not wait behind the user's work
	if err != nil {
		return nil, err
	}
	cfg.OnNotification = nil // notices are ours here, not the user's
	c, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	pooled, err := s.byTransaction(ctx, c)
	switch {
	case err != nil:
	case pooled:
		err = errPooled
	default:
		_, err = c.Exec(ctx, "LISTEN "+s.tables.channel, pgx.QueryExecModeSimpleProtocol)
	}
	if err != nil {
		end(c)
		return nil, err
	}
	return c, nil
}

// hear hands notices on until the connection breaks, and reports whether any
// arrived. Until the first one does, and for those who watch, it looks as well. A
// connection that died without a word is silent like one on which nothing happens:
// it is asked now and then, and at once when somebody found its turn by itself.
func (s *store) hear(ctx context.Context, c *pgx.Conn, w sqllock.Waiters) (worked bool) {
	trial := "trial-" + rand.Text()
	_ = s.notify(ctx, trial) // if it is lost, the connection is taken not to work
	w.Overdue()              // what came before LISTEN was not told
	begun, wanted, proven := time.Now(), time.Now(), time.Now()
	for ctx.Err() == nil {
		if !worked && time.Since(begun) > listenTrial {
			return false
		}
		wait := probeEvery
		missed := w.Missed()
		wakes := []<-chan struct{}{missed, w.Watching()}
		if !worked || w.Watched() {
			wait, _ = w.Poll(ctx, !worked) // an error is met again soon enough
			wait, wakes = max(wait, time.Millisecond), wakes[:1]
		}
		n, err := notice(ctx, c, wait, wakes...)
		if w.Anyone() {
			wanted = time.Now()
		}
		switch {
		case err != nil, time.Since(wanted) > listenIdle:
			return worked
		case n != "":
			proven = time.Now()
			if n == trial {
				worked = true
			} else {
				w.Wake(strings.Fields(n)...)
			}
		case worked && (isClosed(missed) || time.Since(proven) > probeEvery && w.Anyone()):
			if !leads(ctx, c) {
				return worked
			}
			proven = time.Now()
		}
	}
	return worked
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// leads reports whether a connection still leads to the server. Notices that come
// before the answer are kept for the next look.
func leads(ctx context.Context, c *pgx.Conn) bool {
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	return c.Ping(ctx) == nil
}

// notice waits for the next notice, until it is time to look, or until one of wakes
// is closed; "" then.
func notice(ctx context.Context, c *pgx.Conn, wait time.Duration, wakes ...<-chan struct{}) (string, error) {
	sub, cancel := context.WithTimeout(ctx, wait)
	var interrupts sync.WaitGroup
	for _, wake := range wakes {
		interrupts.Go(func() { // ends with sub; awaited below
			select {
			case <-wake:
				cancel()
			case <-sub.Done():
			}
		})
	}
	n, err := c.WaitForNotification(sub)
	ended := sub.Err() != nil
	cancel()
	interrupts.Wait()
	switch {
	case err == nil:
		return n.Payload, nil
	case ended && ctx.Err() == nil && !c.IsClosed():
		return "", nil
	}
	return "", err
}

// tell sends word to the processes in which claims wait. It is a transaction of
// its own, after the one that let them in: notices in a transaction that writes
// make all such transactions of a server wait for each other's disk.
func (s *store) tell(ctx context.Context, ids []string) error {
	for len(ids) > 0 {
		n := min(len(ids), noticeRun)
		if err := s.notify(ctx, strings.Join(ids[:n], " ")); err != nil {
			return err
		}
		ids = ids[n:]
	}
	return nil
}

// notify sends a notice, on a connection that does not wait behind the user's work.
func (s *store) notify(ctx context.Context, text string) error {
	return s.with(ctx, s.beatSource(ctx), func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, "SELECT pg_notify($1::text, $2::text)", s.tables.channel, text)
		return err
	})
}

func end(c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx)
}
