package sqlline

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

// A waiter polls the more seldom the more wait ahead of it, and at the pace of the line's
// turns: of a thousand it is the first few that matter.
func TestWhoWaitsFarBehindPollsSeldom(t *testing.T) {
	begun := time.Now()
	quiet := headState{departed: 7, token: 3, waiting: 900, holder: "a"}
	behind := func(h headState, ahead int64) headState { h.ahead = ahead; return h }
	after := func(h headState, turns int64) headState { h.departed += turns; h.token += turns; return h }
	for _, x := range []struct {
		name  string
		next  headState
		later time.Duration // after quiet was read
		pause time.Duration // that it had then
		want  time.Duration
	}{
		{"the first, in a line at rest", behind(quiet, 0), time.Second, pollLast, pollLast},
		{"the first, after a turn", behind(after(quiet, 1), 0), time.Second, pollLast, pollFirst},
		{"the first, after a grant", headState{departed: 7, token: 4, waiting: 899, holder: "b"}, time.Second, pollLast, pollFirst},
		{"the fourth, in a line at rest", behind(quiet, 4), time.Second, time.Hour, 2 * pollLast},
		{"one far behind, in a line at rest", behind(quiet, pollCount), time.Second, time.Hour, (4 + pollCount) / 4 * pollLast},
		{"one far behind, where only others came", behind(headState{departed: 7, token: 3, waiting: 950, holder: "a"}, pollCount), time.Second, time.Hour, (4 + pollCount) / 4 * pollLast},
		{"one far behind, after ten turns of 2 ms", behind(after(quiet, 10), pollCount), 20 * time.Millisecond, time.Hour, pollCount * time.Millisecond},
		{"one far behind, after a turn of a second", behind(after(quiet, 1), pollCount), time.Second, pollFirst, pollTurn * pollCount / 2},
		{"the third, after a long hold", behind(after(quiet, 1), 2), time.Minute, pollLast, pollTurn},
		{"one that many were ahead of, which left together", behind(after(quiet, 1), 3), 70 * time.Millisecond, pollLast, 15 * time.Millisecond},
		{"the second, after a turn of 10 ms", behind(after(quiet, 1), 1), 10 * time.Millisecond, pollLast, 5 * time.Millisecond},
		{"one far behind, with a TTL of 3 s", behind(headState{departed: 7, token: 3, waiting: 900, holder: "a", left: 9 * time.Second, ownLeft: 2 * time.Second}, pollCount), time.Second, time.Hour, time.Second / 2},
		{"one far behind a claim with a TTL of 3 s", behind(headState{departed: 7, token: 3, waiting: 900, holder: "a", left: 2 * time.Second, ownLeft: 9 * time.Second}, pollCount), time.Second, time.Hour, time.Second / 2},
		{"one whose time is nearly over", behind(headState{departed: 7, token: 3, waiting: 900, holder: "a", left: time.Minute, ownLeft: time.Millisecond}, pollCount), time.Second, time.Hour, pollLast},
		{"one whose line was made anew", behind(headState{departed: 1, token: 1, holder: "c"}, 1), time.Second, pollLast, pollLast * 5 / 4},
	} {
		p := poll{known: true, state: quiet, read: begun, pause: x.pause}
		if strings.Contains(x.name, "left together") {
			p.state.ahead = 10
		}
		now := begun.Add(x.later)
		p.plan(x.next, now)
		if wait := p.due.Sub(now); p.pause != x.want || wait < x.want/2 || wait > x.want {
			t.Errorf("%s: a pause of %v, due after %v, want %v", x.name, p.pause, wait, x.want)
		}
		if !p.known || p.state != x.next || p.read != now {
			t.Errorf("%s: what was read is not kept: %+v", x.name, p)
		}
	}
}

// Whoever is not counted: readers, and permits that fit beside each other, have their turn
// together.
func TestTurnsAheadAreCountedAndNotClaims(t *testing.T) {
	for _, x := range []struct{ exclusive, need, limit, want int64 }{
		{0, 0, 1, 0}, {5, 0, 1, 5}, {0, 60, driver.All, 0}, {1, 60, driver.All, 1}, {0, 20, 20, 1}, {0, 19, 20, 0}, {2, 45, 20, 4},
	} {
		var h headState
		row := sqlRow{0, 0, 0, 9, 1, x.exclusive, x.need, x.limit, 100, 120, 0, 110, 0, "a"}
		if err := h.scan(row); err != nil || h.ahead != x.want {
			t.Errorf("%+v: %d turns, %v", x, h.ahead, err)
		}
	}
}

// Whoever expires first is looked for: the holder, or one of several, or one that waits.
func TestTheNearestExpiryIsFound(t *testing.T) {
	for _, x := range []struct{ used, now, exclusive, shared, waiting, own, left, ownLeft int }{
		{0, 100, 150, 0, 0, 190, 50, 90}, {0, 100, 150, 0, 130, 190, 30, 90}, {3, 100, 0, 140, 170, 0, 40, 0},
		{0, 100, 0, 0, 170, 90, 0, 0}, {0, 100, 90, 0, 170, 101, 0, 1},
	} {
		holder := ""
		if x.exclusive != 0 {
			holder = "a"
		}
		var h headState
		row := sqlRow{0, 0, x.used, 9, 1, 0, 0, 1, x.now, x.exclusive, x.shared, x.waiting, x.own, holder}
		err := h.scan(row)
		if left, own := micros(int64(x.left)), micros(int64(x.ownLeft)); err != nil || h.left != left || h.ownLeft != own {
			t.Errorf("%+v: %v left, %v for the claim itself, %v", x, h.left, h.ownLeft, err)
		}
	}
}

// sqlRow has integers and texts.
type sqlRow []any

func (r sqlRow) Scan(dest ...any) error {
	if len(dest) != len(r) {
		return fmt.Errorf("%d columns, not %d", len(r), len(dest))
	}
	for i, d := range dest {
		switch d := d.(type) {
		case *string:
			*d = fmt.Sprint(r[i])
		case *int64:
			if _, err := fmt.Sscan(fmt.Sprint(r[i]), d); err != nil {
				return err
			}
		}
	}
	return nil
}

// Of a name that is watched every departure is told soon, whoever waits for it as well.
func TestAWatchedNameIsPolledOften(t *testing.T) {
	p := poll{known: true, watched: true, pause: time.Hour}
	p.plan(headState{ahead: pollCount}, time.Now())
	if p.pause != pollLast {
		t.Errorf("a pause of %v", p.pause)
	}
}

// A process that has many claims in a line has the most of them far behind its first.
func TestManyClaimsOfOneProcessAreFarBehindItsFirst(t *testing.T) {
	places := map[*driverkit.Waiter]place{}
	for token := range int64(farBehind) {
		places[&driverkit.Waiter{}] = place{token: 100 + token}
	}
	if from := farFrom(places); from != math.MaxInt64 {
		t.Errorf("far from token %d on", from)
	}
	places[&driverkit.Waiter{}] = place{token: 99}
	if from := farFrom(places); from != 100+farBehind-1 {
		t.Errorf("far from token %d on", from)
	}
}

// Who came while the line was read is polled for at once.
func TestAPollThatIsDueSinceTheReadStaysDue(t *testing.T) {
	p := poll{known: true}
	p.hurry()
	now := time.Now()
	p.plan(headState{departed: 1, ahead: pollCount}, now)
	if p.due.After(now) {
		t.Errorf("due in %v", p.due.Sub(now))
	}
}

// A line without a holder, as it is for a moment at each handover, is advanced by those at
// its front. Those behind do so when it still has the same first claim after a while; and
// so with what has expired in a line that moves.
func TestThoseFarBehindLeaveAStalledLineToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSession(&Engine{}, driver.SessionOptions{TTL: time.Minute})
		c := driver.Claim{ID: "c", Try: 1, Name: "n", Need: 1, Limit: 1}
		if err := s.add(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		for i, x := range []struct {
			ahead  int
			first  string
			held   int64
			expiry int64
			want   time.Duration
			wait   time.Duration // before the next
		}{
			{0, "a", 0, 9, 0, 0},
			{atFront, "a", 0, 9, 0, 0},
			{20, "a", 0, 9, 100 * time.Millisecond, 30 * time.Millisecond},
			{20, "a", 0, 9, 70 * time.Millisecond, 70 * time.Millisecond},
			{20, "a", 0, 9, 0, 0},
			{20, "b", 0, 9, 100 * time.Millisecond, 0},
			{5000, "c", 0, 9, 20 * time.Second, 0},
			{20, "d", 1, 7, 100 * time.Millisecond, 60 * time.Millisecond}, // something has expired
			{19, "e", 1, 7, 40 * time.Millisecond, 60 * time.Millisecond},
			{18, "f", 1, 7, -20 * time.Millisecond, 0},
		} {
			if got := s.leaveToOthers(c, &claimReading{ahead: x.ahead, expiry: x.expiry, first: claimRow{id: x.first, held: x.held}}); got != x.want {
				t.Errorf("%d. %+v: left to others for %v", i, x, got)
			}
			time.Sleep(x.wait)
		}
	})
	if near, far := lookEvery(time.Minute, farBehind-1), lookEvery(time.Minute, farBehind); near != time.Minute || far != 8*time.Minute {
		t.Errorf("a look at most every %v, and %v", near, far)
	}
}

// Before anything is known of a line it is polled soon.
func TestTheFirstPollsAreSoon(t *testing.T) {
	var p poll
	now := time.Now()
	p.plan(headState{waiting: 900, ahead: pollCount}, now)
	if p.pause != pollFirst {
		t.Errorf("a pause of %v", p.pause)
	}
}
