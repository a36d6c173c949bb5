package kvline_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit/kvline"
)

// Each has a write of its own.
func TestTokensOfClaimsThatOthersEnterGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		line := longLine(t, m)
		var comes []driver.Session
		var all sync.WaitGroup
		for i := range 3 {
			s := open(t, m, fmt.Sprint("comes", i))
			comes = append(comes, s)
			synctest.Wait()
			all.Go(func() { enter(t, s, queued(fmt.Sprint("comes", i))) })
		}
		all.Wait()
		for i, s := range line {
			if err := s.Leave(t.Context(), queued(fmt.Sprint("claim", i))); err != nil {
				t.Fatal(err)
			}
		}
		order := ids(t, m)
		last := uint64(0)
		for _, id := range order {
			var i int
			fmt.Sscanf(id, "comes%d", &i)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			st, err := comes[i].Await(ctx, queued(id), driver.Standing{})
			cancel()
			if err != nil || !st.Held {
				t.Fatalf("%s: %+v, %v", id, st, err)
			}
			if st.Token <= last {
				t.Errorf("%s holds with token %d after %d", id, st.Token, last)
			}
			last = st.Token
			if err := comes[i].Leave(t.Context(), queued(id)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// tight is a distant store whose values have a limit, which takes a round trip to find out.
type tight struct {
	distant
	limit int
}

func (d tight) Put(ctx context.Context, key string, v kvline.Value, keep time.Duration) (uint64, error) {
	if len(v.Data) > d.limit {
		time.Sleep(d.trip)
		return 0, driver.ErrDenied
	}
	return d.distant.Put(ctx, key, v, keep)
}

func (d tight) PutTelling(ctx context.Context, key string, v kvline.Value, keep time.Duration, address, text string) (uint64, error) {
	if len(v.Data) > d.limit {
		time.Sleep(d.trip)
		return 0, driver.ErrDenied
	}
	return d.distant.PutTelling(ctx, key, v, keep, address, text)
}

// Claims that do not fit in keep coming: the holder must be able to leave all the same.
func TestLeaveEndsWhileClaimsThatDoNotFitComeAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		const trip = 40 * time.Millisecond
		store := tight{distant{m, trip}, 8 << 10}
		sessions := longLine(t, store)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var all sync.WaitGroup
		note := strings.Repeat("x", 6<<10)
		for i := range 300 {
			all.Go(func() {
				s := open(t, store, fmt.Sprint("comes", i))
				time.Sleep(time.Duration(i) * 7 * time.Millisecond)
				for n := 0; ctx.Err() == nil; n++ {
					c := queued(fmt.Sprintf("comes%d.%d", i, n))
					c.Note = note
					if _, err := s.Enter(ctx, c); ctx.Err() == nil && !errors.Is(err, driver.ErrDenied) {
						t.Errorf("Enter: %v", err)
					}
				}
			})
		}
		time.Sleep(3 * time.Second)
		for i, s := range sessions {
			beat(t, s, queued(fmt.Sprint("claim", i)))
		}
		begun := time.Now()
		leave, done := context.WithTimeout(t.Context(), 6*time.Second)
		defer done()
		err := sessions[2].Leave(leave, queued("claim2"))
		if err != nil || time.Since(begun) > 2*time.Second {
			t.Errorf("Leave: %v after %v", err, time.Since(begun))
		}
		cancel()
		all.Wait()
	})
}

// The question is delivered twice, the second time after the claim has come, held and left.
func TestAQuestionThatIsDeliveredTwiceBlocksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		others, store := dropping(m), dropping(m, "enter")
		line := longLine(t, others)
		s := open(t, store, "comes")
		synctest.Wait()
		time.AfterFunc(time.Millisecond, store.send)
		enter(t, s, queued("comes"))
		if err := s.Leave(t.Context(), queued("comes")); err != nil {
			t.Fatal(err)
		}
		others.mu.Lock()
		others.words = []string{"entered", "asked"}
		others.mu.Unlock()
		store.send()
		time.Sleep(ttl / 3)
		if all := ids(t, m); !slices.Contains(all, "comes") {
			t.Fatalf("in line: %v", all)
		}
		for i, o := range line { // all others leave: it is granted, and its engine is told
			if err := o.Leave(t.Context(), queued(fmt.Sprint("claim", i))); err != nil {
				t.Fatal(err)
			}
		}
		for range 30 {
			time.Sleep(ttl / 3)
			beat(t, s)
		}
		if all := ids(t, m); len(all) > 0 {
			t.Errorf("in line: %v", all)
		}
	})
}

// Nobody is asked to enter what is refused.
func TestALimitThatDiffersIsSaidAtOnceAndLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		for i := range 19 {
			c := queued(fmt.Sprint("claim", i))
			if c.Limit, c.Need = 2, 1; i == 0 {
				c.Need = 2
			}
			enter(t, open(t, m, fmt.Sprint("session", i)), c)
		}
		store := newCounted(m)
		s := open(t, store, "comes")
		c := queued("comes")
		c.Limit = 3
		synctest.Wait()
		begun := time.Now()
		st, err := s.Enter(t.Context(), c)
		if !errors.Is(err, driver.ErrLimit) {
			t.Fatalf("%+v, %v", st, err)
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("it took %v to say %v", took, err)
		}
		store.take()
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if calls := store.take(); calls["Put line"]+calls["Get line"] > 0 {
			t.Errorf("the claim that was refused is still in the table: Close costs %v", calls)
		}
	})
}

// Close comes while an engine is asked.
func TestNothingIsEnteredAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		longLine(t, m)
		store := newCounted(m)
		s := open(t, dropping(store, "enter"), "comes")
		synctest.Wait()
		done := make(chan error, 1)
		go func() {
			_, err := s.Enter(t.Context(), queued("comes"))
			done <- err
		}()
		time.Sleep(10 * time.Millisecond)
		store.take()
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		err := <-done
		time.Sleep(time.Second)
		if calls := store.take(); calls["Put line"] > 1 { // Close itself writes it back once
			t.Errorf("calls since Close began: %v; Enter: %v", calls, err)
		}
	})
}

// The question is late: the process of the one who was asked stood still for two minutes.
func TestALateQuestionBlocksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		line := longLine(t, dropping(m, "entered"))
		store := dropping(m, "enter", "withdrawn")
		s := open(t, store, "comes")
		synctest.Wait()
		enter(t, s, queued("comes"))
		if err := s.Leave(t.Context(), queued("comes")); err != nil {
			t.Fatal(err)
		}
		for range 36 {
			time.Sleep(ttl / 3)
			beat(t, s)
			for i, o := range line {
				beat(t, o, queued(fmt.Sprint("claim", i)))
			}
		}
		store.send()
		time.Sleep(ttl / 3)
		for i, o := range line {
			if err := o.Leave(t.Context(), queued(fmt.Sprint("claim", i))); err != nil {
				t.Fatal(err)
			}
		}
		if all := ids(t, m); len(all) > 0 {
			t.Errorf("in line: %v", all)
		}
	})
}

// The store says of a line that is too long that it is, as NATS does, and not ErrDenied.
func TestLeaveIsNotHinderedByALineThatWouldBeTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		sessions := longLine(t, short{m})
		s := open(t, short{m}, "comes")
		synctest.Wait()
		c := queued("comes")
		c.Note = strings.Repeat("x", 6<<10)
		entered := make(chan error, 1)
		go func() {
			_, err := s.Enter(t.Context(), c)
			entered <- err
		}()
		synctest.Wait()
		if err := sessions[2].Leave(t.Context(), queued("claim2")); err != nil {
			t.Errorf("Leave of the one who is asked: %v", err)
		}
		if err := <-entered; !errors.Is(err, errTooLong) {
			t.Error(err)
		}
	})
}

func TestAHolderThatDiedIsRemovedForWhoComesToALongLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		line := longLine(t, m)
		for i := range 4 {
			line = append(line, open(t, m, fmt.Sprint("session", 18+i)))
			enter(t, line[18+i], queued(fmt.Sprint("claim", 18+i)))
		}
		for range 10 { // all but the holder are beaten, and none of them awaits
			time.Sleep(ttl / 3)
			for i, s := range line[1:] {
				beat(t, s, queued(fmt.Sprint("claim", i+1)))
			}
		}
		s := open(t, m, "comes")
		synctest.Wait()
		enter(t, s, queued("comes"))
		v, _ := m.Get(t.Context(), "line.name")
		if strings.Contains(string(v.Data), `"claim0"`) {
			t.Errorf("in line: %.300s", v.Data)
		}
	})
}

func TestAGrantThatComesBeforeTheAnswerIsTakenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		line := longLine(t, dropping(m, "entered"))
		s := open(t, m, "comes")
		synctest.Wait()
		begun := time.Now()
		entered := make(chan driver.Standing, 1)
		go func() { entered <- enter(t, s, queued("comes")) }()
		time.Sleep(100 * time.Millisecond)
		for i, o := range line {
			if err := o.Leave(t.Context(), queued(fmt.Sprint("claim", i))); err != nil {
				t.Fatal(err)
			}
		}
		if st := <-entered; !st.Held || time.Since(begun) > time.Second {
			t.Errorf("%+v after %v", st, time.Since(begun))
		}
	})
}

// The one who is asked waits in line; its Lock must not fail because another does not fit in.
func TestAWaiterIsNotHinderedByALineThatWouldBeTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		sessions := longLine(t, short{m})
		s := open(t, short{m}, "comes")
		synctest.Wait()
		c := queued("comes")
		c.Note = strings.Repeat("x", 6<<10)
		entered := make(chan error, 1)
		go func() {
			_, err := s.Enter(t.Context(), c)
			entered <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := sessions[2].Await(ctx, queued("claim2"), driver.Standing{Ahead: 2, Pause: 10 * time.Millisecond})
		if errors.Is(err, errTooLong) {
			t.Errorf("Await of the one who is asked: %v", err)
		}
		<-entered
	})
}

// longest is a store that knows how long the longest notice was.
type longest struct {
	kvline.Store
	most *atomic.Int64
}

func (l longest) Notify(address, text string) {
	l.most.Store(max(l.most.Load(), int64(len(text))))
	l.Store.Notify(address, text)
}

// A notice that no message can carry would be lost, and the grant with it.
func TestTheNoticeOfAGrantStaysShortHoweverManyCome(t *testing.T) {
	const clients = 400
	synctest.Test(t, func(t *testing.T) {
		m, most := newMemory(), new(atomic.Int64)
		line, sessions := longLine(t, longest{m, most}), openAll(t, m, clients)
		synctest.Wait()
		var all sync.WaitGroup
		for i, s := range sessions {
			all.Go(func() { enter(t, s, queued(fmt.Sprint("comes", i))) })
		}
		synctest.Wait()
		for i, s := range line[:6] {
			if err := s.Leave(t.Context(), queued(fmt.Sprint("claim", i))); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if n := most.Load(); n == 0 || n > 64<<10 {
			t.Errorf("the longest notice has %d bytes", n)
		}
		all.Wait()
	})
}
