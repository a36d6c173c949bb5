package zklock

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
)

func TestBeatsInTimePromiseTheWholeTTL(t *testing.T) {
	t.Parallel()
	e := connect(t, []string{oneServer(t)}, WithPath(pathOf(t)))
	for range 5 {
		if beatsInTime(t, e) {
			return
		}
	}
	t.Error("the machine stood still five times: no beat came in time")
}

// beatsInTime beats four times, and says whether all came when they should.
func beatsInTime(t *testing.T, e *Engine) bool {
	s := open(t, e, 3*time.Second)
	c := mutex()
	c.Name = "job/" + c.ID
	hold(t, s, c)
	for i := range 4 {
		slept := time.Now()
		time.Sleep(s.TTL() / 3) // what is tested is what time does to it
		var out [1]driver.Standing
		err := s.Beat(t.Context(), []driver.Claim{c}, out[:])
		if took := time.Since(slept); took > s.TTL()*2/5 {
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := out[0].Valid; got > s.TTL() || got < s.TTL()*85/100 {
			t.Errorf("beat %d promises %v of a TTL of %v", i, got, s.TTL())
		}
	}
	return true
}

func TestABeatAfterASilencePromisesLess(t *testing.T) {
	t.Parallel()
	for range 5 {
		if promisesAfterSilence(t) {
			return
		}
	}
	t.Error("the machine stalled five times: no verdict")
}

// promisesAfterSilence beats and enters after a silence. It reports false if the machine
// stalled, so that the leader may have heard of the session after the silence.
func promisesAfterSilence(t *testing.T) bool {
	e, p := through(t, pathOf(t))
	s := open(t, e, 12*time.Second)
	c, other := mutex(), mutex()
	other.Name = "other"
	hold(t, s, c)
	connections := p.Connections()
	p.BlackHole(faultproxy.Both)
	silent := time.Now()
	time.Sleep(s.zs.Timeout / 3) // what is tested is what time does to it
	p.Heal()
	healed := time.Now()
	limit := s.zs.Timeout - healed.Sub(silent)
	var out [1]driver.Standing
	err := s.Beat(t.Context(), []driver.Claim{c}, out[:])
	// The core assumes that a session which was beaten lives for a TTL: it must be told
	// that a claim which enters now does not.
	st, err2 := s.Enter(t.Context(), other)
	if p.Connections() != connections || time.Since(healed) > s.zs.Timeout/6 {
		return false
	}
	if err := driver.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	if out[0].Valid > limit {
		t.Errorf("Beat promises %v, though the leader may count from before the silence: %v", out[0].Valid, limit)
	}
	if st.Valid <= 0 || st.Valid > limit {
		t.Errorf("Enter promises %v, not %v at most", st.Valid, limit)
	}
	return true
}

func TestTTLIsThreeQuartersOfWhatTheServersGive(t *testing.T) {
	t.Parallel()
	e := connect(t, []string{oneServer(t)}, WithPath(pathOf(t)))
	for _, test := range []struct{ ask, want time.Duration }{
		{3 * time.Second, 3 * time.Second},
		{10 * time.Second, 10 * time.Second},
		{100 * time.Millisecond, 200 * time.Millisecond}, // half of the shortest timeout there is
		{250 * time.Millisecond, 250 * time.Millisecond},
		{time.Hour, 150 * time.Second}, // three quarters of the longest
	} {
		var s driver.Session
		err := driver.ErrGone
		for try := 0; try < 10 && errors.Is(err, driver.ErrGone); try++ { // the shortest may be over when it has begun
			s, err = e.Open(t.Context(), driver.SessionOptions{ID: newID(), TTL: test.ask})
		}
		if err != nil {
			t.Fatal(err)
		}
		if s.TTL() != test.want {
			t.Errorf("TTL %v asked for, %v given, not %v", test.ask, s.TTL(), test.want)
		}
		_ = s.Close(t.Context()) // it may be over
	}
}

func TestATTLTheServersCannotKeepIsRefused(t *testing.T) {
	t.Parallel()
	c := pawl.New(connect(t, []string{oneServer(t)}, WithPath(pathOf(t))), pawl.WithTTL(time.Hour))
	defer c.Close()
	if _, err := c.Mutex("job").Lock(t.Context()); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("%v, not ErrInvalid", err)
	}
}

func TestANodeOfAnotherZooKeeperSessionIsNotAdopted(t *testing.T) {
	t.Parallel()
	e := connect(t, []string{oneServer(t)}, WithPath(pathOf(t)))
	old, s := open(t, e, time.Minute), open(t, e, time.Minute)
	c := mutex()
	hold(t, old, c)
	s.mu.Lock()
	s.claims[c.ID] = &claimState{claim: c, mayExist: true} // as after an Enter without an answer
	s.mu.Unlock()
	if st := enter(t, s, c); st.Held {
		t.Errorf("holds by the node of another ZooKeeper session: %+v", st)
	}
	old.Close(t.Context())
	turn(t, s, c)
	if all := listed(t, e, "job"); len(all) != 1 || all[0].Session != s.id {
		t.Errorf("in line: %+v", all)
	}
}

func TestAWaiterSurvivesItsConnections(t *testing.T) {
	t.Parallel()
	path := pathOf(t)
	e, p := through(t, path)
	direct := connect(t, []string{oneServer(t)}, WithPath(path))
	holder, waiter := open(t, direct, time.Minute), open(t, e, time.Minute)
	a, b := mutex(), mutex()
	hold(t, holder, a)
	stand(t, waiter, b)
	done := turnLater(t, waiter, b)
	for range 8 { // more than the library's channel of events takes
		before := p.Connections()
		p.Reset()
		expectEvents(t, waiter, func() bool { return p.Connections() > before })
	}
	leave(t, holder, a)
	if st := <-done; !st.Held {
		t.Errorf("%+v", st)
	}
	expectLine(t, direct, b)
}

// A turn that comes while the waiter has no connection is seen when it has one.
func TestATurnDuringADisconnectIsSeen(t *testing.T) {
	t.Parallel()
	path := pathOf(t)
	e, p := through(t, path)
	direct := connect(t, []string{oneServer(t)}, WithPath(path))
	holder, waiter := open(t, direct, time.Minute), open(t, e, time.Minute)
	a, b := mutex(), mutex()
	hold(t, holder, a)
	stand(t, waiter, b)
	p.Refuse()
	p.Reset()
	leave(t, holder, a)
	p.Heal()
	turn(t, waiter, b)
}

func TestAWaiterWhoseZooKeeperSessionEndedIsTold(t *testing.T) {
	t.Parallel()
	path := pathOf(t)
	e, p := through(t, path)
	direct := connect(t, []string{oneServer(t)}, WithPath(path))
	holder, waiter := open(t, direct, time.Minute), open(t, e, 2*time.Second)
	waiter.expiryTimer.Stop() // the servers are to end it
	a, b := mutex(), mutex()
	hold(t, holder, a)
	stand(t, waiter, b)
	told := make(chan error, 1)
	go func() {
		for {
			st, err := waiter.Await(t.Context(), b, driver.Standing{})
			if st.Held || errors.Is(err, driver.ErrGone) || err != nil && !errors.Is(err, driver.ErrUnreachable) {
				told <- err
				return
			}
		}
	}()
	p.Refuse()
	p.Reset()
	expectEvents(t, waiter, func() bool { return len(listed(t, direct, "job")) == 1 }) // its ZooKeeper session has expired
	p.Heal()
	if err := <-told; !errors.Is(err, driver.ErrGone) {
		t.Errorf("Await: %v, not ErrGone", err)
	}
	select {
	case <-waiter.Lost():
	default:
		t.Error("Lost is not closed")
	}
	if _, err := waiter.Enter(t.Context(), mutex()); !errors.Is(err, driver.ErrGone) {
		t.Errorf("Enter: %v, not ErrGone", err)
	}
	hold(t, open(t, e, time.Minute), func() driver.Claim { c := mutex(); c.Name = "other"; return c }())
}

// The holder's client is cut off without a word. Its lease must end before the
// servers let another in; the library's own event came 27 s after that.
func TestALossIsToldBeforeARivalHolds(t *testing.T) {
	t.Parallel()
	path := pathOf(t)
	e, p := through(t, path)
	const ttl = 2 * time.Second
	cut := pawl.New(e, pawl.WithTTL(ttl))
	defer cut.Close()
	rival := pawl.New(connect(t, []string{oneServer(t)}, WithPath(path)), pawl.WithTTL(ttl))
	defer rival.Close()
	lease, err := cut.Mutex("job").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.BlackHole(faultproxy.Both)
	begun := time.Now()
	next, err := rival.Mutex("job").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if lease.Err() == nil {
		t.Errorf("both hold, %v after the cut", time.Since(begun))
	}
	if next.Token() <= lease.Token() {
		t.Errorf("token %d follows %d", next.Token(), lease.Token())
	}
	if took := time.Since(begun); took > 2*ttl+5*time.Second {
		t.Errorf("the rival waited %v with a TTL of %v", took, ttl)
	}
	<-lease.Context().Done()
	if cause := context.Cause(lease.Context()); !errors.Is(cause, pawl.ErrLost) {
		t.Errorf("it ended by %v", cause)
	}
	p.Reset()
	p.Heal()
	if err := next.Unlock(); err != nil {
		t.Error(err)
	}
	again, err := cut.Mutex("job").Lock(t.Context()) // the same client goes on in a new session
	if err != nil {
		t.Fatal(err)
	}
	if again.Token() <= next.Token() {
		t.Errorf("token %d follows %d", again.Token(), next.Token())
	}
}
