package pawl

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// Close ends a client also for List, Line and Watch, and if the program closes the
// engine itself.
func TestAfterCloseEveryCallIsErrClosed(t *testing.T) {
	t.Parallel()
	c := New(memlock.New())
	held, err := c.Mutex("a").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var entry driver.Entry
	for e, err := range c.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		entry = e
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	wantErr(t, held.Err(), ErrClosed)
	_, err = c.Mutex("a").TryLock(t.Context())
	wantErr(t, err, ErrClosed)
	_, err = c.LockAll(t.Context(), []string{"a", "b"})
	wantErr(t, err, ErrClosed)
	_, err = c.Records()
	wantErr(t, err, ErrClosed)
	wantErr(t, c.Evict(t.Context(), entry), ErrClosed)
	seen := 0
	for _, err := range c.List(t.Context(), "") {
		seen++
		wantErr(t, err, ErrClosed)
	}
	if seen != 1 {
		t.Errorf("List yields %d times, not once", seen)
	}
}

// A loop that goes on after errors, as the documentation says, must not go on for ever.
func TestWatchEndsWithItsClient(t *testing.T) {
	t.Parallel()
	c := New(memlock.New())
	if _, err := c.Mutex("a").Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	seen := 0
	for ch, err := range c.Watch(ctx, "") {
		switch seen++; seen {
		case 1:
			if err != nil || ch.Step != Taken {
				t.Fatalf("%+v, %v", ch, err)
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		case 2:
			wantErr(t, err, ErrClosed)
		default:
			t.Fatalf("it goes on: %+v, %v", ch, err)
		}
	}
	if seen != 2 {
		t.Errorf("yielded %d times, not twice", seen)
	}
}
