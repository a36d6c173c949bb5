package driverkit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

// A fakeStore has subscriptions that the test ends.
type fakeStore struct {
	refuse error                // every subscription fails with it
	after  time.Duration        // the time until it confirms one
	ends   chan error           // the one that is up fails with what is sent
	sends  chan string          // and gets this message
	topics map[string]int       // how often each was subscribed to; read while all goroutines are blocked
	up     map[string]time.Time // since when
}

func newFakeStore() *fakeStore {
	return &fakeStore{ends: make(chan error), sends: make(chan string), topics: map[string]int{}, up: map[string]time.Time{}}
}

func (s *fakeStore) listen(ctx context.Context, topic string, up func(), message func(string)) error {
	s.topics[topic]++
	if s.refuse != nil {
		return s.refuse
	}
	time.Sleep(s.after)
	s.up[topic] = time.Now()
	defer delete(s.up, topic)
	up()
	for {
		select {
		case m := <-s.sends:
			message(m)
		case err := <-s.ends:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func TestWaitersOfATopicShareOneSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFakeStore()
		subs := driverkit.NewSubscriptions(store.listen)
		defer subs.Close()
		var got []string
		one := subs.Open("a", func(m string) { got = append(got, m) })
		two := subs.Open("a", nil)
		synctest.Wait()
		if one != two || store.topics["a"] != 1 {
			t.Errorf("%d subscriptions to one topic", store.topics["a"])
		}
		store.sends <- "hello"
		synctest.Wait()
		if len(got) != 1 || got[0] != "hello" {
			t.Errorf("messages %q", got)
		}
	})
}

func TestAfterTheLastUserASubscriptionIsKeptForAWhile(t *testing.T) {
	for _, c := range []struct {
		keep, after time.Duration
		up          bool
	}{
		{0, 0, false},
		{time.Minute, 30 * time.Second, true},
		{time.Minute, 2 * time.Minute, false},
		{-1, 24 * time.Hour, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := newFakeStore()
			subs := driverkit.NewSubscriptions(store.listen)
			defer subs.Close()
			one, two := subs.Open("a", nil), subs.Open("a", nil)
			synctest.Wait()
			one.Release(0)
			synctest.Wait()
			if len(store.up) != 1 {
				t.Error("ended under a user")
			}
			two.Release(c.keep)
			time.Sleep(c.after)
			synctest.Wait()
			if up := subs.Generation("a") != 0; up != c.up || (len(store.up) == 1) != c.up {
				t.Errorf("keep %v, after %v: up is %v", c.keep, c.after, up)
			}
			again := subs.Open("a", nil)
			time.Sleep(2 * time.Minute)
			if subs.Generation("a") == 0 {
				t.Errorf("keep %v, after %v: one that is used again was ended", c.keep, c.after)
			}
			again.Release(0)
		})
	}
}

func TestASubscriptionThatComesUpAgainIsANewGeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFakeStore()
		store.after = time.Millisecond
		subs := driverkit.NewSubscriptions(store.listen)
		defer subs.Close()
		sub := subs.Open("a", nil)
		synctest.Wait()
		if generation, _, _ := sub.State(); generation != 0 {
			t.Error("up before the store has said so")
		}
		time.Sleep(2 * time.Millisecond)
		first, changed, _ := sub.State()
		if first == 0 || first == driverkit.InProcess {
			t.Errorf("generation %d", first)
		}
		store.ends <- errors.New("broken")
		<-changed
		time.Sleep(time.Second)
		if second, _, _ := sub.State(); second == 0 || second == first {
			t.Errorf("generation %d after %d", second, first)
		}
	})
}

// What was sent while the subscription was down is lost.
func TestAWaiterLooksAfterAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFakeStore()
		subs := driverkit.NewSubscriptions(store.listen)
		defer subs.Close()
		sub := subs.Open("a", nil)
		synctest.Wait()
		f, w := newFakeSession(), &driverkit.Waiter{}
		w.Current(subs.Generation("a"))
		a := await(t.Context(), f, w, sub)
		if f.looked() != 0 {
			t.Errorf("%d looks under one generation", f.looked())
		}
		store.ends <- errors.New("broken")
		f.answers(held)
		time.Sleep(time.Second)
		synctest.Wait()
		if !a.done || !a.st.Held || a.took > 10*time.Millisecond {
			t.Errorf("returned %v, %+v after %v", a.done, a.st, a.took)
		}
	})
}

func TestAWaiterLooksForItselfWhileTheSubscriptionIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFakeStore()
		store.refuse = errors.New("no connection")
		subs := driverkit.NewSubscriptions(store.listen)
		defer subs.Close()
		sub := subs.Open("a", nil)
		f, w := newFakeSession(), &driverkit.Waiter{}
		await(t.Context(), f, w, sub)
		time.Sleep(time.Minute)
		if got := f.looked(); got < 300 || got > 600 { // each attempt to subscribe begins the pause anew
			t.Errorf("%d looks in a minute", got)
		}
		close(f.ended)
	})
}

func TestARefusalReachesTheWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFakeStore()
		store.refuse = driverkit.Refused(driver.ErrDenied)
		subs := driverkit.NewSubscriptions(store.listen)
		defer subs.Close()
		sub := subs.Open("a", nil)
		a := await(t.Context(), newFakeSession(), &driverkit.Waiter{}, sub)
		if !a.done || a.err != driver.ErrDenied {
			t.Errorf("returned %v, %v", a.done, a.err)
		}
	})
}

func TestNothingIsOpenedAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFakeStore()
		subs := driverkit.NewSubscriptions(store.listen)
		subs.Open("a", nil).Release(time.Hour)
		subs.Close()
		subs.Close()
		if len(store.up) != 0 {
			t.Error("a subscription is up")
		}
		if subs.Open("a", nil) != nil {
			t.Error("one was opened")
		}
	})
}
