package sqlline

import (
	"testing"
	"time"
)

// A waiter polls the more seldom the more wait ahead of it, and at the pace of the line's
// turns: of a thousand it is the first few that matter.
func TestWhoWaitsFarBehindPollsSeldom(t *testing.T) {
	begun := time.Now()
	quiet := headState{departed: 7, token: 3, waiting: 900, exclusive: 1}
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
		{"the first, after a grant", headState{departed: 7, token: 4, waiting: 899, exclusive: 1}, time.Second, pollLast, pollFirst},
		{"the fourth, in a line at rest", behind(quiet, 4), time.Second, time.Hour, 2 * pollLast},
		{"one far behind, in a line at rest", behind(quiet, pollCount), time.Second, time.Hour, 17 * pollLast},
		{"one far behind, where only others came", behind(headState{departed: 7, token: 3, waiting: 950, exclusive: 1}, pollCount), time.Second, time.Hour, 17 * pollLast},
		{"one far behind, after ten turns of 2 ms", behind(after(quiet, 10), pollCount), 20 * time.Millisecond, time.Hour, 64 * time.Millisecond},
		{"one far behind, after a turn of a second", behind(after(quiet, 1), pollCount), time.Second, pollFirst, 17 * pollLast},
		{"the second, after a turn of 10 ms", behind(after(quiet, 1), 1), 10 * time.Millisecond, pollLast, 5 * time.Millisecond},
		{"one whose line was made anew", behind(headState{departed: 1, token: 1, exclusive: 1}, 1), time.Second, pollLast, pollLast * 5 / 4},
	} {
		p := poll{known: true, state: quiet, read: begun, pause: x.pause}
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

// Before anything is known of a line it is polled soon.
func TestTheFirstPollsAreSoon(t *testing.T) {
	var p poll
	now := time.Now()
	p.plan(headState{waiting: 900, ahead: pollCount}, now)
	if p.pause != pollFirst {
		t.Errorf("a pause of %v", p.pause)
	}
}
