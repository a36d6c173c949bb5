package contest

import (
	"os"
	"testing"
	"time"
)

func TestOwnWorkIsNoDisturbance(t *testing.T) {
	o := &others{}
	o.start()
	before := ticks(os.Getpid())
	for begun := time.Now(); ticks(os.Getpid()) < before+20*tick; { // what is measured is its own work
		if time.Since(begun) > 10*time.Second {
			t.Fatal("the kernel counts no time of this program")
		}
	}
	busy := (&others{last: usage{known: true}}).read()
	mine := ticks(os.Getpid()) - before
	if !busy.known || busy.busy == 0 || mine < 20*tick {
		t.Fatalf("%+v, %v of mine", busy, mine)
	}
	total := busy.busy + busy.idle - o.last.busy - o.last.idle
	if share := o.share(); share > 1-float64(mine-tick)/float64(total) {
		t.Errorf("others used %.2f, this program %v of %v", share, mine, total)
	}
}
