package driverkit_test

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

func behind(id string, pause time.Duration) driver.Standing {
	holder := driver.Entry{Claim: driver.Claim{ID: id, Need: 1, Limit: 1}, Held: true}
	return driver.Standing{Pause: pause, Holder: &holder}
}

func TestABeatMovesTheLook(t *testing.T) {
	const id, who, ttl = "0123456789abcdef", "01234567", time.Hour
	for _, c := range []struct {
		what    string
		pause   time.Duration // that the beat has told
		blocker string
		want    time.Duration
		sooner  bool
	}{
		{"later", 3 * ttl, who, 3 * ttl, false},
		{"sooner", ttl / 4, who, ttl / 4, true},
		{"another is in the way", 3 * ttl, "another", ttl, true},
		{"another is in the way, and soon gone", ttl / 4, "another", ttl / 4, true},
		{"it is time", 0, who, 0, true},
	} {
		p := driverkit.RecheckAfter(behind(id, 2*ttl))
		now := time.Now()
		if sooner := p.Beaten(now, c.pause, c.blocker, ttl); sooner != c.sooner {
			t.Errorf("%s: sooner is %t", c.what, sooner)
		}
		if left := p.Left(); left > c.want+time.Minute || left < c.want-time.Minute {
			t.Errorf("%s: %v are left, not %v", c.what, left, c.want)
		}
	}
}

func TestWhoIsInTheWayIsOneExclusiveClaim(t *testing.T) {
	shared, foreign, waits := behind("0123456789abcdef", 0), behind("0123456789abcdef", 0), behind("0123456789abcdef", 0)
	shared.Holder.Limit, foreign.Holder.Foreign, waits.Holder.Held = 2, true, false
	for _, c := range []struct {
		st   driver.Standing
		want string
	}{
		{behind("0123456789abcdef", 0), "01234567"},
		{behind("012", 0), "012"},
		{shared, ""}, {foreign, ""}, {waits, ""}, {driver.Standing{}, ""},
	} {
		if got := driverkit.Blocker(c.st); got != c.want {
			t.Errorf("%+v: %q, not %q", c.st.Holder, got, c.want)
		}
	}
}

func TestAPlanThatWasNotMadeIsToLookNow(t *testing.T) {
	var p driverkit.Recheck
	if left := p.Left(); left > 0 {
		t.Errorf("%v are left", left)
	}
}

// Beats overtake looks and are overtaken: one that was sent before the last look ended
// may tell of what was before it.
func TestABeatThatIsOlderThanTheLookPutsNothingOff(t *testing.T) {
	const id, who, ttl = "0123456789abcdef", "01234567", time.Hour
	for _, c := range []struct {
		what   string
		pause  time.Duration // that the beat has told
		want   time.Duration
		sooner bool
	}{
		{"later", 3 * ttl, ttl, false},
		{"sooner", ttl / 4, ttl / 4, true},
	} {
		sent := time.Now()
		for !time.Now().After(sent) { // the clock may be coarse
		}
		p := driverkit.RecheckAfter(behind(id, ttl))
		if sooner := p.Beaten(sent, c.pause, who, 4*ttl); sooner != c.sooner {
			t.Errorf("%s: sooner is %t", c.what, sooner)
		}
		if left := p.Left(); left > c.want+time.Minute || left < c.want-time.Minute {
			t.Errorf("%s: %v are left, not %v", c.what, left, c.want)
		}
	}
}

// A look that is due for a doubt comes once in every, and puts none off.
func TestADoubtIsLookedIntoOnceInAWhile(t *testing.T) {
	const ttl = time.Hour
	for _, c := range []struct {
		pause, want time.Duration
		sooner      bool
	}{{2 * ttl, ttl, true}, {ttl / 2, ttl / 2, false}} {
		p := driverkit.RecheckAfter(behind("0123456789abcdef", c.pause))
		if sooner := p.Suspect(ttl); sooner != c.sooner {
			t.Errorf("%v: sooner is %t", c.pause, sooner)
		}
		if left := p.Left(); left > c.want+time.Minute || left < c.want-time.Minute {
			t.Errorf("%v: %v are left, not %v", c.pause, left, c.want)
		}
	}
}
