package zkstore

import (
	"slices"
	"time"

	"github.com/pawl-go/pawl/driverkit"
)

// An exchange is one request with its reply: the server heard of the session between the
// two moments.
type exchange struct{ sent, answered driverkit.Instant }

// A request has been sent and not yet answered.
type request struct {
	xid, op int32
	sent    driverkit.Instant
}

// An exchangeLog records the exchanges of one TCP connection.
//
// The leader alone expires sessions, and it counts from when it last heard of one. What a
// client does is seen by the server it is connected to. A follower reports its sessions to
// the leader twice in every tick, and forwards a write without reporting the session with
// it. So the reply to a write says that the session existed, but not that its time starts
// anew: a follower that is cut off right after it never reports it. Certain is this: of any
// earlier exchange on the same connection that had ended at least half a tick before the
// write was sent, the leader has heard, and it does not expire the session sooner than one
// timeout after that exchange began.
type exchangeLog struct {
	handshakeSent driverkit.Instant // the handshake itself is committed by the leader
	pending       []request
	done          []exchange
}

// maxExchanges is how many exchanges are kept. They are at least a 32nd of the timeout
// apart, so that they reach back far enough.
const maxExchanges = 32

// takePending removes and returns the request that a reply belongs to.
func (g *exchangeLog) takePending(xid int32) (request, bool) {
	i := slices.IndexFunc(g.pending, func(r request) bool { return r.xid == xid })
	if i < 0 {
		return request{}, false
	}
	r := g.pending[i]
	g.pending = slices.Delete(g.pending, i, i+1)
	return r, true
}

// add records an exchange.
func (g *exchangeLog) add(x exchange, timeout time.Duration) {
	if n := len(g.done); n > 0 && x.sent.Sub(g.done[n-1].sent) < timeout/maxExchanges {
		return
	}
	if len(g.done) == maxExchanges {
		g.done = slices.Delete(g.done, 0, 1)
	}
	g.done = append(g.done, x)
}

// leaderHeard returns the latest moment from which the leader certainly counts, if a write
// that was sent at sent has been answered on this connection. lag is the time after which
// the leader has heard of an exchange.
func (g *exchangeLog) leaderHeard(sent driverkit.Instant, lag time.Duration) driverkit.Instant {
	for _, x := range slices.Backward(g.done) {
		if x.answered.Add(lag) <= sent {
			return max(g.handshakeSent, x.sent)
		}
	}
	return g.handshakeSent
}
