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

func TestABeatMovesTheNextLook(t *testing.T) {
	const id, blocker, ttl = "0123456789abcdef", "01234567", time.Hour
	for _, c := range []struct {
		what    string
		pause   time.Duration // that the beat reports
		blocker string
		want    time.Duration
		sooner  bool
	}{
		{"later", 3 * ttl, blocker, 3 * ttl, false},
		{"sooner", ttl / 4, blocker, ttl / 4, true},
		{"another blocker", 3 * ttl, "another", ttl, true},
		{"another blocker that expires soon", ttl / 4, "another", ttl / 4, true},
		{"due", 0, blocker, 0, true},
	} {
		r := driverkit.RecheckAfter(behind(id, 2*ttl))
		now := time.Now()
		if sooner := r.Beaten(now, c.pause, c.blocker, ttl); sooner != c.sooner {
			t.Errorf("%s: sooner is %t", c.what, sooner)
		}
		if left := r.Left(); left > c.want+time.Minute || left < c.want-time.Minute {
			t.Errorf("%s: %v are left, not %v", c.what, left, c.want)
		}
	}
}

func TestTheBlockerIsAnExclusiveHold(t *testing.T) {
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

func TestTheZeroRecheckIsDueNow(t *testing.T) {
	var r driverkit.Recheck
	if left := r.Left(); left > 0 {
		t.Errorf("%v are left", left)
	}
}

// Beats and looks overtake each other: a beat that was sent before the last look ended
// may report an earlier state.
func TestABeatOlderThanTheLookPostponesNothing(t *testing.T) {
	const id, blocker, ttl = "0123456789abcdef", "01234567", time.Hour
	for _, c := range []struct {
		what   string
		pause  time.Duration // that the beat reports
		want   time.Duration
		sooner bool
	}{
		{"later", 3 * ttl, ttl, false},
		{"sooner", ttl / 4, ttl / 4, true},
	} {
		sent := time.Now()
		for !time.Now().After(sent) { // the clock may be coarse
		}
		r := driverkit.RecheckAfter(behind(id, ttl))
		if sooner := r.Beaten(sent, c.pause, blocker, 4*ttl); sooner != c.sooner {
			t.Errorf("%s: sooner is %t", c.what, sooner)
		}
		if left := r.Left(); left > c.want+time.Minute || left < c.want-time.Minute {
			t.Errorf("%s: %v are left, not %v", c.what, left, c.want)
		}
	}
}

func TestASuspicionBringsALookForwardButNotAboveTheRate(t *testing.T) {
	const ttl = time.Hour
	for _, c := range []struct {
		pause, want time.Duration
		sooner      bool
	}{{2 * ttl, ttl, true}, {ttl / 2, ttl / 2, false}} {
		r := driverkit.RecheckAfter(behind("0123456789abcdef", c.pause))
		if sooner := r.Suspect(ttl); sooner != c.sooner {
			t.Errorf("%v: sooner is %t", c.pause, sooner)
		}
		if left := r.Left(); left > c.want+time.Minute || left < c.want-time.Minute {
			t.Errorf("%v: %v are left, not %v", c.pause, left, c.want)
		}
	}
}
