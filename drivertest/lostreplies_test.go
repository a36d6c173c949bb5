package drivertest_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/drivertest"
	"github.com/pawl-go/pawl/memlock"
)

// enterMany enters n claims on n names through an engine that loses replies. It
// returns which replies were lost.
func enterMany(t *testing.T, e driver.Engine, n int) (lost []int) {
	t.Helper()
	var s driver.Session
	for s == nil {
		opened, err := e.Open(t.Context(), driver.SessionOptions{ID: "s", TTL: time.Minute})
		if err != nil && !errors.Is(err, driver.ErrUnreachable) {
			t.Fatal(err)
		}
		s = opened
	}
	for i := range n {
		id := strconv.Itoa(i)
		st, err := s.Enter(t.Context(), driver.Claim{ID: id, Try: 1, Name: id, Need: 1, Limit: 1})
		switch {
		case errors.Is(err, driver.ErrUnreachable) && st == driver.Standing{}:
			lost = append(lost, i)
		case err != nil || !st.Held:
			t.Fatal(st, err)
		}
	}
	return lost
}

func TestLoseRepliesCarriesEachCallOutAndLosesOneReplyInTen(t *testing.T) {
	const n = 1000
	e := memlock.New()
	lost := enterMany(t, drivertest.LoseReplies(e, 1), n)
	if len(lost) < n/20 || len(lost) > n/5 {
		t.Errorf("%d of %d replies were lost", len(lost), n)
	}
	held := 0
	for range e.List(t.Context(), "") {
		held++
	}
	if held != n {
		t.Errorf("%d of %d calls were carried out", held, n)
	}
}

func TestLoseRepliesIsDeterminedByItsSeed(t *testing.T) {
	once := enterMany(t, drivertest.LoseReplies(memlock.New(), 5), 100)
	again := enterMany(t, drivertest.LoseReplies(memlock.New(), 5), 100)
	if len(once) == 0 || len(once) != len(again) {
		t.Fatalf("lost %v, then %v", once, again)
	}
	for i := range once {
		if once[i] != again[i] {
			t.Fatalf("lost %v, then %v", once, again)
		}
	}
}

func TestLoseRepliesKeepsTheOptionalInterfaces(t *testing.T) {
	offers := func(e driver.Engine) (records, watcher bool) {
		_, records = e.(driver.Records)
		_, watcher = e.(driver.Watcher)
		return records, watcher
	}
	full := memlock.New()
	for about, e := range map[string]driver.Engine{
		"all":  full,
		"none": struct{ driver.Engine }{full},
		"records": struct {
			driver.Engine
			driver.Records
		}{full, full},
		"watcher": struct {
			driver.Engine
			driver.Watcher
		}{full, full},
	} {
		wantRecords, wantWatcher := offers(e)
		if records, watcher := offers(drivertest.LoseReplies(e, 1)); records != wantRecords || watcher != wantWatcher {
			t.Errorf("%s: records %v, watcher %v; the engine %v, %v", about, records, watcher, wantRecords, wantWatcher)
		}
	}
}

// slowOpen answers Open just after the caller's ctx has ended.
type slowOpen struct {
	driver.Engine
	open int
}

type slowOpenSession struct {
	driver.Session
	e *slowOpen
}

func (e *slowOpen) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	s, err := e.Engine.Open(context.WithoutCancel(ctx), o) // succeeds although ctx ends
	<-ctx.Done()
	e.open++
	return slowOpenSession{s, e}, err
}

func (s slowOpenSession) Close(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.e.open--
	return s.Session.Close(ctx)
}

func TestLoseRepliesClosesASessionWhoseOpenReplyWasLostEvenAfterItsCtxEnded(t *testing.T) {
	e := &slowOpen{Engine: memlock.New()}
	lossy := drivertest.LoseReplies(e, 1)
	lost := 0
	for range 100 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		s, err := lossy.Open(ctx, driver.SessionOptions{ID: "s", TTL: time.Minute})
		cancel()
		if errors.Is(err, driver.ErrUnreachable) {
			lost++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(t.Context()); err != nil && !errors.Is(err, driver.ErrUnreachable) {
			t.Fatal(err)
		}
	}
	if lost == 0 || e.open != 0 {
		t.Errorf("%d openings were not answered, and %d sessions are left", lost, e.open)
	}
}
