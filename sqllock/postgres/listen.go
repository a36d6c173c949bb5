package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlline"
)

const (
	// listenTrial is how long a notice to ourselves may take before LISTEN counts as
	// not working on this connection, as through some poolers.
	listenTrial = 2 * time.Second
	// listenAgain is how long waiters poll before LISTEN is tried again.
	listenAgain = 30 * time.Second
	// listenSoon is the same after a connection that worked has ended.
	listenSoon = 200 * time.Millisecond

	// listenIdle is how long a connection listens without any waiter.
	listenIdle = time.Minute

	// pingEvery is how often a silent connection is pinged while there are waiters, and
	// pingTimeout how long the answer may take.
	pingEvery   = 15 * time.Second
	pingTimeout = time.Second

	noticeIDs = 200 // ids in one notice, whose text is limited to 8000 bytes
)

// listen receives notices on one connection, and polls while there is none, as behind a
// pooler that assigns connections per transaction. A notice to ourselves shows whether
// notices arrive: a pooler need not identify itself.
func (s *store) listen(ctx context.Context, w sqlline.Waiters) {
	for w.WaitForAny(ctx) == nil {
		c, err := s.connectListener(ctx, w)
		worked := false
		if err == nil {
			worked = s.receive(ctx, c, w)
			closeConn(c)
		}
		pause := listenAgain
		if worked || err != nil && !errors.Is(err, errPooled) {
			pause = listenSoon
		}
		polling, cancel := context.WithTimeout(ctx, pause)
		w.PollUntil(polling)
		cancel()
	}
}

// connectListener makes a connection that listens, and polls meanwhile: connecting takes
// long where the network drops packets.
func (s *store) connectListener(ctx context.Context, w sqlline.Waiters) (c *pgx.Conn, err error) {
	polling, done := context.WithCancel(ctx)
	var dial sync.WaitGroup
	dial.Go(func() { // ends with ctx or after a while; awaited below
		defer done()
		c, err = s.listener(ctx)
	})
	w.PollUntil(polling)
	dial.Wait()
	return c, err
}

// listener makes a connection that listens.
func (s *store) listener(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	cfg, err := s.beats.config(ctx) // which does not queue behind the user's work
	if err != nil {
		return nil, err
	}
	cfg.OnNotification = nil // notices are for the engine here, not for the user
	cfg.RuntimeParams["client_encoding"] = "UTF8"
	c, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	pooled, err := s.isTransactionPooled(ctx, c)
	switch {
	case err != nil:
	case pooled:
		err = errPooled
	default:
		_, err = c.Exec(ctx, "LISTEN "+s.tables.inbox("")+"; LISTEN "+s.tables.inbox(s.owner), pgx.QueryExecModeSimpleProtocol)
	}
	if err != nil {
		closeConn(c)
		return nil, err
	}
	return c, nil
}

// receive delivers notices until the connection breaks, and reports whether any arrived.
// It polls until the first one does, and for watchers. A connection that died silently
// looks like one on which nothing happens: it is pinged now and then, and at once when a
// waiter found its turn without a notice.
func (s *store) receive(ctx context.Context, c *pgx.Conn, w sqlline.Waiters) (worked bool) {
	trial := "trial-" + rand.Text()
	_ = s.notify(ctx, []string{s.tables.inbox(s.owner)}, []string{trial}) // if it is lost, the connection counts as not working
	w.PollAll()                                                           // changes from before LISTEN were not notified
	begun, needed, alive := time.Now(), time.Now(), time.Now()
	for ctx.Err() == nil {
		if !worked && time.Since(begun) > listenTrial {
			return false
		}
		wait := pingEvery
		missed := w.Missed()
		wakes := []<-chan struct{}{missed, w.Watching()}
		if !worked || w.AnyWatcher() {
			wait, _ = w.Poll(ctx, !worked) // an error is met again soon
			wait, wakes = max(wait, time.Millisecond), wakes[:1]
		}
		n, err := nextNotice(ctx, c, wait, wakes...)
		if w.Any() {
			needed = time.Now()
		}
		switch {
		case err != nil, time.Since(needed) > listenIdle:
			return worked
		case n != "":
			alive = time.Now()
			if n == trial {
				worked = true
			} else {
				w.Wake(strings.Fields(n)...)
			}
		case worked && (isClosed(missed) || time.Since(alive) > pingEvery && w.Any()):
			if !answers(ctx, c) {
				return worked
			}
			alive = time.Now()
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

// answers reports whether the server still answers on a connection. Notices that come
// before the answer are kept for the next call of nextNotice.
func answers(ctx context.Context, c *pgx.Conn) bool {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	return c.Ping(ctx) == nil
}

// nextNotice waits for the next notice. It returns "" after wait, or when one of wakes is
// closed.
func nextNotice(ctx context.Context, c *pgx.Conn, wait time.Duration, wakes ...<-chan struct{}) (string, error) {
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

// notifyClaims notifies the processes in which claims wait. It is a transaction of its
// own, after the one that granted them: PostgreSQL serializes the commits of all
// transactions with a NOTIFY, each including its write to disk.
func (s *store) notifyClaims(ctx context.Context, n sqlline.Notices) error {
	var channels, texts []string
	for owner, ids := range n {
		for some := range slices.Chunk(ids, noticeIDs) {
			channels, texts = append(channels, s.tables.inbox(owner)), append(texts, strings.Join(some, " "))
		}
	}
	return s.notify(ctx, channels, texts)
}

// notify sends notices, on a connection that does not queue behind the user's work.
func (s *store) notify(ctx context.Context, channels, texts []string) error {
	send := func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, "SELECT pg_notify(n.channel, n.text) FROM unnest($1::text[], $2::text[]) AS n(channel, text)", channels, texts)
		return err
	}
	err := s.with(ctx, s.onBeats, send)
	if errors.Is(err, driver.ErrUnsupported) { // a pool of one connection, which can evict and no more
		err = s.with(ctx, s.from.with, send)
	}
	return err
}
