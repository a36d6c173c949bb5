package kvline_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit/kvline"
)

// The Leave of a holder was lost, and it enters again with a higher Try: it goes to the
// end of the line, and has left its place.
func TestAPlaceThatIsReplacedIsADeparture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		e := kvline.New("memory", m, driver.Volatile)
		defer e.Close()
		departures, err := e.Watch(t.Context(), "name")
		if err != nil {
			t.Fatal(err)
		}
		holder, waiter := open(t, m, "one"), open(t, m, "two")
		enter(t, holder, queued("holder"))
		enter(t, waiter, queued("waiter"))
		again := queued("holder")
		again.Try = 2
		if st := enter(t, holder, again); st.Held {
			t.Fatalf("%+v", st)
		}
		select {
		case <-departures:
		case <-time.After(time.Minute):
			t.Error("no departure is reported")
		}
	})
}
