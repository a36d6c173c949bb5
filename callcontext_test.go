package pawl

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A callContext must end like a context of package context, whichever of its methods
// were called before its end.
func TestACallEndsLikeAContext(t *testing.T) {
	ours := errors.New("ours")
	type key struct{}
	ends := []struct {
		name  string
		end   func(c *callContext, cancel, closing context.CancelCauseFunc)
		err   error
		cause error
	}{
		{"by its parent", func(_ *callContext, cancel, _ context.CancelCauseFunc) { cancel(ours) }, context.Canceled, ours},
		{"by Close", func(_ *callContext, _, closing context.CancelCauseFunc) { closing(ErrClosed) }, context.Canceled, ErrClosed},
		{"by its time", func(*callContext, context.CancelCauseFunc, context.CancelCauseFunc) { time.Sleep(time.Second) }, context.DeadlineExceeded, errWaited},
		{"by its user", func(c *callContext, _, _ context.CancelCauseFunc) { c.end() }, context.Canceled, context.Canceled},
	}
	before := []struct {
		name string
		ask  func(c *callContext)
	}{
		{"nothing", func(*callContext) {}},
		{"Err", func(c *callContext) { _ = c.Err() }},
		{"Done", func(c *callContext) { c.Done() }},
		{"Value", func(c *callContext) { c.Value(key{}) }},
		{"a child", func(c *callContext) { _, cancel := context.WithCancel(c); t.Cleanup(cancel) }},
	}
	for _, e := range ends {
		for _, b := range before {
			t.Run(e.name+" after "+b.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					parent, cancel := context.WithCancelCause(context.WithValue(context.Background(), key{}, "value"))
					defer cancel(nil)
					closing, shut := context.WithCancelCause(context.Background())
					defer shut(nil)
					c := &callContext{Context: parent, closing: closing, until: time.Now().Add(time.Second), why: errWaited}
					defer c.end()
					b.ask(c)
					if c.Err() != nil {
						t.Fatalf("ended before its end: %v", c.Err())
					}
					e.end(c, cancel, shut)
					synctest.Wait()
					if c.Err() != e.err || context.Cause(c) != e.cause {
						t.Errorf("Err %v, cause %v; want %v, %v", c.Err(), context.Cause(c), e.err, e.cause)
					}
					select {
					case <-c.Done():
					default:
						t.Error("Done is not closed")
					}
					if c.Value(key{}) != "value" {
						t.Error("the parent's value is gone")
					}
				})
			})
		}
	}
}

func TestAWaiterOfACallIsToldOfItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancel(context.Background())
		defer cancel()
		c := callUntil(callUntil(parent, time.Now().Add(2*time.Second)), time.Now().Add(time.Hour))
		defer c.end()
		if at, ok := c.Deadline(); !ok || time.Until(at) != 2*time.Second {
			t.Errorf("deadline in %v", time.Until(at))
		}
		began := time.Now()
		<-c.Done()
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("told after %v", took)
		}
	})
}

// end and Done do not wait for each other, so one of them must see the other's effect.
func TestACallThatEndsWhileDoneIsCalledClosesTheChannel(t *testing.T) {
	for range 2000 {
		c := callUntil(t.Context(), time.Now().Add(time.Hour))
		go c.end()
		select {
		case <-c.Done():
		case <-time.After(10 * time.Second):
			t.Fatal("not told")
		}
	}
}
