package etcdlock

import (
	"context"
	"strconv"
	"sync"
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
	begins   *sync.WaitGroup // the watches that are being begun over it
	sign     sign            // the last; none: it has not been heard of yet
	asked    chan struct{}   // closed when a question to it is over; nil: there is none
}

// streamKey is the name under which a stream's number is told.
const streamKey = "pawl-stream"

// over returns ctx as that of a watch over the engine's present stream, the stream's
// number, and what to call when the watch has begun, or never will. A watch on a member
// that has lost its leader ends instead of being silent.
func (e *Engine) over(ctx context.Context) (over context.Context, number int, begun func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	over, number, begun = e.numbered(ctx, e.stream.number), e.stream.number, func() {}
	if !e.closed {
		e.anchorLocked()
		e.stream.begins.Add(1)
		begun = e.stream.begins.Done
	}
	return over, number, begun
}

// release ends s once no watch begins over it any more. A client can never be closed if
// one of its streams ends, with its last watch, while another watch is being refused
// over it.
func (s stream) release() {
	if s.anchored {
		s.begins.Wait()
		s.anchor()
	}
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
	if s.number != h.stream || h.e.closed {
		return // it is doubted already, or Close ends it
	}
	h.e.tasks.Go(s.release) // ends when the watches that begin over it have begun or failed
	*s = stream{number: s.number + 1}
}

// anchorLocked keeps the stream open from the first wait on. A stream ends with
// its last watch, and opening one costs a round trip, and under a password a
// hash that is made to be slow.
func (e *Engine) anchorLocked() {
	if e.stream.anchored {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	e.stream.anchored, e.stream.opened, e.stream.anchor, e.stream.begins = true, time.Now(), cancel, &sync.WaitGroup{}
	over := e.numbered(ctx, e.stream.number)
	e.tasks.Go(func() { // ends when the stream is released, by doubt or by Close
		defer cancel()
		for ctx.Err() == nil {
			for range e.client.Watch(over, e.space.names("")) {
			}
			e.rest(ctx)
		}
	})
}
