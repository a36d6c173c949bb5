package zklock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/stalltest"
	"github.com/pawl-go/pawl/internal/testserver"
)

// Servers that take requests and answer none are out of reach, whichever call finds
// out, and whether the connection stands or has to be made.
func TestAServerThatDoesNotAnswerIsUnreachable(t *testing.T) {
	t.Parallel()
	e, p := through(t, pathOf(t))
	s := open(t, e, time.Minute)
	held := mutex()
	hold(t, s, held)
	shown := listed(t, e, "job")[0]
	closing := open(t, e, time.Minute)
	p.BlackHole(faultproxy.Both)
	calls := []struct {
		name string
		call func(ctx context.Context) error
	}{
		{"Enter", func(ctx context.Context) error { _, err := s.Enter(ctx, mutex()); return err }},
		{"a try", func(ctx context.Context) error { _, err := s.Enter(ctx, tries(mutex())); return err }},
		{"EnterAll", func(ctx context.Context) error {
			_, err := s.EnterAll(ctx, []driver.Claim{mutex(), claim(1, 3)})
			return err
		}},
		{"Enter again", func(ctx context.Context) error { _, err := s.Enter(ctx, held); return err }},
		{"Leave", func(ctx context.Context) error { return s.Leave(ctx, held) }},
		{"Leave of an unknown claim", func(ctx context.Context) error { return s.Leave(ctx, mutex()) }},
		{"Line", func(ctx context.Context) error { _, err := e.Line(ctx, "job"); return err }},
		{"List", func(ctx context.Context) error {
			for _, err := range e.List(ctx, "") {
				return err
			}
			return nil
		}},
		{"Evict", func(ctx context.Context) error { return e.Evict(ctx, shown) }},
		{"Watch", func(ctx context.Context) error { _, err := e.Watch(ctx, "other"); return err }},
		{"Load", func(ctx context.Context) error { _, _, err := e.Load(ctx, "key"); return err }},
		{"Store", func(ctx context.Context) error {
			_, err := e.Store(ctx, "key", []byte("value"), 0, 0)
			return err
		}},
		{"Open", func(ctx context.Context) error {
			_, err := e.Open(ctx, driver.SessionOptions{ID: newID(), TTL: time.Minute})
			return err
		}},
		{"Close", closing.Close},
		{"Beat", func(ctx context.Context) error { return s.Beat(ctx, nil, nil) }}, // and it cuts the connection
		{"Enter without a connection", func(ctx context.Context) error { _, err := s.Enter(ctx, mutex()); return err }},
	}
	for _, c := range calls {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		err := c.call(ctx)
		cancel()
		if !errors.Is(err, driver.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, not ErrUnreachable by its deadline", c.name, err)
		}
	}
}

// More is sent than the network takes, so that callers queue for the connection too.
func TestCallersOfAServerThatReadsNothingComeBack(t *testing.T) {
	t.Parallel()
	e, p := through(t, pathOf(t))
	p.BlackHole(faultproxy.ToServer)
	value := make([]byte, 60<<10)
	var calls sync.WaitGroup
	for n := range 400 {
		calls.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second) // time enough for each to begin
			defer cancel()
			_, err := e.Store(ctx, fmt.Sprint("key", n), value, 0, 0)
			if !errors.Is(err, driver.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v, not ErrUnreachable by its deadline", err)
			}
		})
	}
	calls.Wait()
	p.Reset() // the requests in the queue are lost, and the connection is made again
	p.Heal()
	err := persist(func() error {
		_, err := e.Store(t.Context(), "key", value, 0, 0)
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// To wait for one's turn is no question to the servers.
func TestAWaitThatEndsWithItsDeadlineSaysNothingOfTheServers(t *testing.T) {
	t.Parallel()
	e := connect(t, []string{oneServer(t)}, WithPath(pathOf(t)))
	s := open(t, e, time.Minute)
	waits := mutex()
	hold(t, s, mutex())
	stand(t, s, waits)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Await(ctx, waits, driver.Standing{}); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("Await: %v, not the deadline alone", err)
	}
}

// A caller without a deadline is not kept until every one of many servers was tried.
func TestACallWithoutADeadlineComesBackFromASilentServer(t *testing.T) {
	t.Parallel()
	const ttl, servers = 2 * time.Second, 12
	p := faultproxy.New(t, oneServer(t))
	e := connect(t, slices.Repeat([]string{p.Addr()}, servers), WithPath(pathOf(t))) // each is tried
	t.Cleanup(p.Heal)
	s := open(t, e, ttl)
	s.expiryTimer.Stop()
	warm := mutex()
	hold(t, s, warm)
	leave(t, s, warm)
	p.BlackHole(faultproxy.Both)
	back := func(what string, call func() error) {
		stalltest.Within(t, 5*ttl, what+" came back", func() time.Duration {
			begun := time.Now()
			if err := call(); !errors.Is(err, driver.ErrUnreachable) {
				t.Errorf("%s: %v, not ErrUnreachable", what, err)
			}
			return time.Since(begun)
		})
	}
	for _, c := range []driver.Claim{mutex(), tries(mutex())} {
		back("Enter", func() error {
			_, err := s.Enter(t.Context(), c)
			return err
		})
	}
	back("Open", func() error {
		_, err := e.Open(t.Context(), driver.SessionOptions{ID: newID(), TTL: ttl})
		return err
	})
}

func TestLockEndsWithItsCtxWhenNoServerAnswers(t *testing.T) {
	t.Parallel()
	path := pathOf(t)
	e, p := through(t, path)
	c := pawl.New(e)
	defer c.Close()
	held, err := pawl.New(connect(t, []string{oneServer(t)}, WithPath(path))).Mutex("job").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer held.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { _, err := c.Mutex("job").Lock(ctx); done <- err }()
	expectEvents(t, nil, func() bool { return len(listed(t, e, "job")) == 2 })
	p.BlackHole(faultproxy.Both)
	cancel()
	begun := time.Now()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Lock: %v", err)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("Lock came back %v after its ctx had ended", took)
	}
	p.Heal()
	expectEvents(t, nil, func() bool { return len(listed(t, e, "job")) == 1 }) // and nothing stays in line
}

func TestOpenEndsWithItsCtxOnAStoppedServer(t *testing.T) {
	t.Parallel()
	server := testserver.ZooKeeper(t)
	e := connect(t, []string{server.Addr()})
	s := open(t, e, time.Minute)
	server.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	begun := time.Now()
	_, err := e.Open(ctx, driver.SessionOptions{ID: newID(), TTL: time.Minute})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Open: %v", err)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("Open came back after %v", took)
	}
	server.Resume()
	hold(t, s, mutex()) // the one that was open lives on: its own ctx ended long ago
}
