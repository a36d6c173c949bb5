package planted

import (
	"bufio"
	"context"
	"encoding/gob"
	"fmt"
	"net"
	"sync"

	"github.com/pawl-go/pawl/driver"
)

// A conn is one connection to the server. Calls on it are concurrent.
type conn struct {
	net  net.Conn
	out  chan request
	dead chan struct{} // closed by fail
	work sync.WaitGroup

	// mixUp is a planted bug: a reply that came too late answers the next call of its kind.
	mixUp bool

	mu      sync.Mutex // guards what follows
	last    uint64
	pending map[uint64]*pendingCall
	failed  bool
	late    map[op]reply // for mixUp
}

// A pendingCall is a call that waits for its reply.
type pendingCall struct {
	op      op
	answer  chan reply // buffered by one
	givenUp bool       // nobody waits; only kept for mixUp
}

func newConn(c net.Conn, mixUp bool) *conn {
	k := &conn{net: c, out: make(chan request, 16), dead: make(chan struct{}), mixUp: mixUp, pending: map[uint64]*pendingCall{}, late: map[op]reply{}}
	k.work.Go(k.write)
	k.work.Go(k.read)
	return k
}

// broken reports whether the connection can no longer be used.
func (k *conn) broken() bool {
	select {
	case <-k.dead:
		return true
	default:
		return false
	}
}

// fail ends the connection. Calls under way have no answer.
func (k *conn) fail() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.failed {
		k.failed = true
		close(k.dead)
		_ = k.net.Close() // nothing is to be saved
	}
}

// close ends the connection and waits for its goroutines.
func (k *conn) close() {
	k.fail()
	k.work.Wait()
}

// write sends what calls have put into out, so that no call is kept by a connection that
// takes nothing.
func (k *conn) write() {
	defer k.fail()
	buffered := bufio.NewWriter(k.net)
	enc := gob.NewEncoder(buffered)
	for {
		select {
		case <-k.dead:
			return
		case r := <-k.out:
			if enc.Encode(r) != nil {
				return
			}
			if len(k.out) == 0 && buffered.Flush() != nil {
				return
			}
		}
	}
}

func (k *conn) read() {
	defer k.fail()
	dec := gob.NewDecoder(bufio.NewReader(k.net))
	for {
		var r reply
		if dec.Decode(&r) != nil {
			return
		}
		k.deliver(r)
	}
}

func (k *conn) deliver(r reply) {
	k.mu.Lock()
	defer k.mu.Unlock()
	call := k.pending[r.ID]
	delete(k.pending, r.ID)
	switch {
	case call == nil:
	case call.givenUp:
		k.late[call.op] = r
	default:
		call.answer <- r
	}
}

// call sends r and waits for its reply. Without one it is ctx's error or ErrUnreachable,
// and the outcome is unknown.
func (k *conn) call(ctx context.Context, r request) (reply, error) {
	k.mu.Lock()
	k.last++
	r.ID = k.last
	p := &pendingCall{op: r.Op, answer: make(chan reply, 1)}
	k.pending[r.ID] = p
	if wrong, ok := k.late[r.Op]; ok { // its own reply will be too late for it, and answer the next
		delete(k.late, r.Op)
		p.answer <- wrong
		k.pending[r.ID] = &pendingCall{op: r.Op, givenUp: true}
	}
	k.mu.Unlock()
	return k.wait(ctx, r, p)
}

func (k *conn) wait(ctx context.Context, r request, p *pendingCall) (reply, error) {
	select {
	case k.out <- r:
	case <-k.dead:
		return reply{}, errNoAnswer
	case <-ctx.Done():
		k.giveUp(r)
		return reply{}, ctx.Err()
	}
	select {
	case a := <-p.answer:
		return a, a.Err.decode()
	case <-k.dead:
		return reply{}, errNoAnswer
	case <-ctx.Done():
		k.giveUp(r)
		select { // a full buffer: the server learns it from the Leave, or by expiry
		case k.out <- request{ID: r.ID, Op: opCancel}:
		default:
		}
		return reply{}, ctx.Err()
	}
}

var errNoAnswer = fmt.Errorf("planted: connection lost: %w", driver.ErrUnreachable)

// giveUp says that nobody waits for a reply any more.
func (k *conn) giveUp(r request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mixUp && r.Op == opEnter {
		if p := k.pending[r.ID]; p != nil {
			p.givenUp = true
			return
		}
	}
	delete(k.pending, r.ID)
}
