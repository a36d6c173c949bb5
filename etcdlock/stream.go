package etcdlock

import (
	"context"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

// A stream is what the watches of an engine are told over. The client makes one
// for all that have the same metadata, and keeps it for as long as its connection
// stands, whether or not the member at its other end still answers. So each has a
// number, and when one is found silent, the next watches go over another.
type stream struct {
	number   int
	anchored bool
	opened   time.Time // when it was anchored
	anchor   context.CancelFunc
	sign     sign          // the last; none: it has not been heard of yet
	asked    chan struct{} // closed when a question to it is over; nil: there is none
}

// streamKey is the name under which a stream's number is told.
const streamKey = "pawl-stream"

// over returns ctx as that of a watch over the engine's present stream, and the
// stream's number. A watch on a member that has lost its leader ends instead of
// being silent.
func (e *Engine) over(ctx context.Context) (context.Context, int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.anchorLocked()
	return e.numbered(ctx, e.stream.number), e.stream.number
}

func (e *Engine) numbered(ctx context.Context, number int) context.Context {
	ctx = clientv3.WithRequireLeader(ctx)
	return metadata.AppendToOutgoingContext(ctx, streamKey, strconv.Itoa(number))
}

// doubt says that h was not told what it should have been.
func (h *ear) doubt() {
	if h == nil {
		return
	}
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	h.doubtLocked()
}

// renewed has another stream opened because h's has refused a watch, and reports
// whether there is another one. A stream is not blamed in its first second: one that
// refuses at once would be followed by others without end.
func (h *ear) renewed() bool {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	if s := h.e.stream; s.number == h.stream && time.Since(s.opened) < time.Second {
		return false
	}
	h.doubtLocked()
	return true
}

func (h *ear) doubtLocked() {
	s := &h.e.stream
	if s.number != h.stream {
		return // it is doubted already
	}
	if s.anchored {
		s.anchor()
	}
	*s = stream{number: s.number + 1}
}

// anchorLocked keeps the stream open from the first wait on. A stream ends with
// its last watch, and opening one costs a round trip, and under a password a
// hash that is made to be slow.
func (e *Engine) anchorLocked() {
	if e.stream.anchored || e.closed {
		return
	}
	ctx, cancel := context.WithCancel(e.begun)
	e.stream.anchored, e.stream.opened, e.stream.anchor = true, time.Now(), cancel
	over := e.numbered(ctx, e.stream.number)
	e.tasks.Go(func() { // ends with the stream's use, or with the engine, whose Close waits for it
		defer cancel()
		for ctx.Err() == nil {
			for range e.client.Watch(over, e.space.names("")) {
			}
			e.rest(ctx)
		}
	})
}
