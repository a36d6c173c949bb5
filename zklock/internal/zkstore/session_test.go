package zkstore

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl/driverkit"
)

// The leader counts from the last exchange that was over for long enough when the
// write was sent, or from the handshake.
func TestAWritePromisesFromTheLastExchangeTheLeaderHasHeardOf(t *testing.T) {
	t.Parallel()
	const s = driverkit.Instant(time.Second)
	for name, test := range map[string]struct {
		done []exchange
		sent driverkit.Instant
		want driverkit.Instant
	}{
		"nothing before it":               {nil, 10 * s, 1 * s},
		"one, long ago":                   {[]exchange{{4 * s, 5 * s}}, 10 * s, 4 * s},
		"one, too near":                   {[]exchange{{9 * s, 9*s + 1}}, 10 * s, 1 * s},
		"one, just over":                  {[]exchange{{6 * s, 8 * s}}, 10 * s, 6 * s},
		"answered late":                   {[]exchange{{4 * s, 5 * s}, {6 * s, 9 * s}}, 10 * s, 4 * s},
		"the latest that is far enough":   {[]exchange{{2 * s, 2 * s}, {5 * s, 6 * s}, {9 * s, 9 * s}}, 10 * s, 5 * s},
		"before the handshake counts not": {[]exchange{{0, 0}}, 10 * s, 1 * s},
	} {
		g := &exchangeLog{handshakeSent: 1 * s, done: test.done}
		if got := g.leaderHeard(test.sent, 2*time.Second); got != test.want {
			t.Errorf("%s: from %v, not %v", name, time.Duration(got), time.Duration(test.want))
		}
	}
}

// What a server answers alone says nothing about the leader, which expires sessions.
func TestOnlyWhatAMajorityAgreedOnIsAPromise(t *testing.T) {
	t.Parallel()
	const s = driverkit.Instant(time.Second)
	for op, promises := range map[int32]bool{
		opCreate: true, opCreateContainer: true, opDelete: true, opSetData: true, opMulti: true,
		opSync: false, opGetData: false, opAuth: false, opSetWatches: false,
	} {
		for _, code := range []uint32{0, uint32(1<<32 - 101)} {
			zs := &Session{Timeout: 6 * time.Second, leaderLag: time.Second, validUntil: 7 * s}
			c, g := &Conn{session: zs}, &exchangeLog{handshakeSent: 1 * s, done: []exchange{{5 * s, 5 * s}}}
			c.answeredLocked(g, request{op: op, sent: 10 * s}, code, 10*s)
			want := 7 * s
			if promises && code == 0 {
				want = 11 * s
			}
			if zs.validUntil != want {
				t.Errorf("an answer to request %d with code %d promises until %v, not %v", op, int32(code), time.Duration(zs.validUntil), time.Duration(want))
			}
		}
	}
}

// A server may be configured with a shorter limit than the one before it, and counts by
// that from then on.
func TestASessionThatIsGivenLessTimeThanWasPromisedEnds(t *testing.T) {
	t.Parallel()
	const asked = 6 * time.Second
	for timeout, ends := range map[time.Duration]bool{asked - time.Millisecond: true, asked: false, 2 * asked: false} {
		c := newConn(nil, 1)
		c.handshakeLocked(7, asked, 0)
		s := c.session
		c.handshakeLocked(7, timeout, 0)
		if s.Ended() != ends || s.Timeout != asked {
			t.Errorf("%v after %v: ended %v, its timeout is %v", timeout, asked, s.Ended(), s.Timeout)
		}
	}
}
