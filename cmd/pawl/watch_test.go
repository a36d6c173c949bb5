package main

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/claimview"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// silentEngine is a store that cannot be listed.
type silentEngine struct{ *memlock.Engine }

func (silentEngine) List(context.Context, string) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		yield(driver.Entry{}, errors.New("no answer"))
	}
}

// watch polls four times a second; a night's outage must not print a hundred
// thousand lines.
func TestWatchSaysNowAndThenThatAStoreDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pawl.New(silentEngine{memlock.New()})
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
		defer cancel()
		var said bytes.Buffer
		a := &app{out: &bytes.Buffer{}, err: &said}
		if err := a.watch(ctx, c, claimview.Everything()); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(said.String(), "no answer\n"); n != 4 {
			t.Errorf("said %d times in 100 seconds, not every 30 seconds", n)
		}
	})
}
