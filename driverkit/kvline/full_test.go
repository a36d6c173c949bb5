package kvline_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit/kvline"
)

// short is a store whose values have a limit.
type short struct{ *memory }

var errTooLong = errors.New("too long")

func (s short) Put(ctx context.Context, key string, v kvline.Value, keep time.Duration) (uint64, error) {
	if len(v.Data) > 8<<10 {
		return 0, errTooLong
	}
	return s.memory.Put(ctx, key, v, keep)
}

// A writer holds, and readers wait until no further one fits into the line. What is in
// line can be prolonged, granted and left all the same, however little room there is.
func TestAFullLineKeepsItsClaims(t *testing.T) {
	for note := 0; note < 300; note += 20 {
		synctest.Test(t, func(t *testing.T) { fullLine(t, strings.Repeat("x", note)) })
	}
}

func fullLine(t *testing.T, note string) {
	s := open(t, short{newMemory()}, "one")
	writer := driver.Claim{ID: "writer", Try: 1, Name: "name", Need: driver.All, Limit: driver.All, Queue: true, Note: note}
	enter(t, s, writer)
	all := []driver.Claim{writer}
	for {
		c := driver.Claim{ID: fmt.Sprint("reader", len(all)), Try: 1, Name: "name", Need: 1, Limit: driver.All, Queue: true}
		if _, err := s.Enter(t.Context(), c); errors.Is(err, errTooLong) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	time.Sleep(ttl / 4)
	for _, c := range all {
		beat(t, s, c)
	}
	if err := s.Leave(t.Context(), writer); err != nil {
		t.Fatal(err)
	}
	for i, st := range beat(t, s, all[1:]...) {
		if !st.Held {
			t.Errorf("reader %d of %d: %+v", i, len(all)-1, st)
		}
	}
}
