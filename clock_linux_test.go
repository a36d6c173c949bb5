package pawl

import (
	"testing"
	"time"
)

func TestTheKernelIsAskedForSleepOnlyWhenThereMayBeNews(t *testing.T) {
	const night = int64(8 * time.Hour)
	var lead, asked int64
	m := newSleepMeter(func() int64 { asked++; return lead })
	mono, drift := int64(time.Hour), int64(1e18)
	m.slept(mono, drift)

	asked = 0
	for i := range recheckAfter {
		if i%1e5 == 0 && m.slept(mono+i, drift+i%sleepNoise) != 0 {
			t.Fatal("asleep while nothing happened")
		}
	}
	if asked != 0 {
		t.Errorf("asked %d times while nothing happened", asked)
	}

	lead, drift = night, drift+night
	if got := m.slept(mono+1, drift); got != night {
		t.Errorf("a night of sleep is seen as %v", time.Duration(got))
	}
	lead += night // and somebody hides it from the wall clock
	if got := m.slept(mono+1+recheckAfter, drift); got != 2*night {
		t.Errorf("a hidden night of sleep leaves %v", time.Duration(got))
	}
	drift -= night // the wall clock is set back: no sleep
	if got := m.slept(mono+2+recheckAfter, drift); got != 2*night {
		t.Errorf("a clock set back leaves %v", time.Duration(got))
	}
}
