package natslock

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/stalltest"
)

// Law 10: without a majority no write succeeds, and every call ends soon after its ctx,
// without a guess at its outcome.
func TestWithoutAMajorityEveryCallEndsAndNothingIsWritten(t *testing.T) {
	t.Parallel()
	c, _ := cluster(t)
	e := clusterEngine(t, c.Addrs()...)
	s := clusterSession(t, e, longTTL)
	promised := time.Now()
	held, leaves, waits := queues("held"), queues("left"), queues("busy")
	token := mustHold(t, s, held).Token
	mustHold(t, s, leaves)
	mustHold(t, s, queues("busy"))
	last, err := s.Enter(t.Context(), waits)
	if err != nil || last.Held {
		t.Fatalf("Enter: %+v, %v", last, err)
	}
	leader := c.Leader(testStream)
	for _, i := range c.Except(leader) {
		c.Members[i].Kill()
	}
	t.Run("calls", func(t *testing.T) {
		for what, call := range callsWithoutAMajority(e, s, held, leaves, waits, last) {
			t.Run(what, func(t *testing.T) {
				t.Parallel()
				const limit = 8 * time.Second
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				stalls := stalltest.Start()
				from := time.Now()
				wrote, err := call(ctx)
				took := time.Since(from) - stalls.End()
				t.Logf("%v after %v", err, took)
				if took > limit+5*time.Second {
					t.Errorf("it returned %v after its ctx had ended", took-limit)
				}
				switch {
				case err == nil && wrote:
					t.Error("it was carried out without a majority")
				case err != nil && !errors.Is(err, driver.ErrUnreachable) && !errors.Is(err, context.DeadlineExceeded):
					t.Errorf("%v", err)
				}
			})
		}
	})
	for _, i := range c.Except(leader) {
		c.Members[i].Restart()
	}
	c.Await()
	out := make([]driver.Standing, 1)
	for begun := time.Now(); ; {
		err := s.Beat(t.Context(), []driver.Claim{held}, out)
		if err == nil {
			break
		}
		if errors.Is(err, driver.ErrGone) && time.Since(promised) > longTTL {
			return // a slow machine: the session has ended meanwhile
		}
		if !errors.Is(err, driver.ErrUnreachable) || time.Since(begun) > clusterTimeout {
			t.Fatalf("Beat with a majority: %v", err)
		}
	}
	if !out[0].Held && !out[0].Gone || out[0].Held && out[0].Token != token {
		t.Errorf("the claim with token %d is %+v", token, out[0])
	}
}

// callsWithoutAMajority are calls, and whether each must have written to succeed. The
// server that is left may answer reads until it has noticed that it is alone.
func callsWithoutAMajority(e driver.Engine, s driver.Session, held, leaves, waits driver.Claim, last driver.Standing) map[string]func(context.Context) (wrote bool, err error) {
	return map[string]func(context.Context) (bool, error){
		"Open": func(ctx context.Context) (bool, error) {
			_, err := e.Open(ctx, driver.SessionOptions{ID: claimID(), TTL: longTTL})
			return false, err
		},
		"Enter": func(ctx context.Context) (bool, error) {
			_, err := s.Enter(ctx, queues("free"))
			return true, err
		},
		"Enter that only tries": func(ctx context.Context) (bool, error) {
			c := queues("free too")
			c.Queue = false
			_, err := s.Enter(ctx, c)
			return true, err
		},
		"Await": func(ctx context.Context) (bool, error) { // it returns when its ctx does, or with news
			st, err := s.Await(ctx, waits, last)
			return st.Held || st.Gone, err
		},
		"Beat": func(ctx context.Context) (bool, error) {
			return true, s.Beat(ctx, []driver.Claim{held}, make([]driver.Standing, 1))
		},
		"Leave": func(ctx context.Context) (bool, error) { return true, s.Leave(ctx, leaves) },
		"Watch": func(ctx context.Context) (bool, error) {
			_, err := e.(driver.Watcher).Watch(ctx, "held")
			return false, err
		},
		"Line": func(ctx context.Context) (bool, error) { _, err := e.Line(ctx, "held"); return false, err },
		"List": func(ctx context.Context) (bool, error) {
			for _, err := range e.List(ctx, "") {
				if err != nil {
					return false, err
				}
			}
			return false, nil
		},
		"Load": func(ctx context.Context) (bool, error) {
			_, _, err := e.(driver.Records).Load(ctx, "key")
			return false, err
		},
		"Store": func(ctx context.Context) (bool, error) {
			_, err := e.(driver.Records).Store(ctx, "key", []byte("x"), 0, 0)
			return true, err
		},
	}
}

// Law 4: a holder whose store has lost its majority is told no later than a TTL after
// the last moment at which the store can have promised it anything.
func TestAHolderIsToldInTimeThatTheMajorityIsLost(t *testing.T) {
	t.Parallel()
	c, _ := cluster(t)
	client, rival := clusterClient(t, clusterTTL, c.Addrs()...), clusterClient(t, longTTL, c.Addrs()...)
	held := mustLock(t, client, "name")
	leader := c.Leader(testStream)
	for _, i := range c.Except(leader) {
		c.Members[i].Kill()
	}
	lost, stalls := time.Now(), stalltest.Start()
	<-held.Context().Done()
	took := time.Since(lost) - stalls.End()
	t.Logf("told %v after the loss of the majority", took)
	if took > clusterTTL {
		t.Errorf("told %v after the loss, with a TTL of %v", took, clusterTTL)
	}
	if held.Err() == nil {
		t.Error("the context of the lease has ended, and its Err is nil")
	}
	for _, i := range c.Except(leader) {
		c.Members[i].Restart()
	}
	c.Await()
	if next := mustLock(t, rival, "name"); next.Token() <= held.Token() {
		t.Errorf("token %d after %d", next.Token(), held.Token())
	}
	_ = held.Unlock() // it was lost
}
