package etcdstore

import (
	"context"
	"strconv"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/pawl-go/pawl/driverkit"
)

// A stream carries the watches of a store. The client has one stream for all watches
// with the same metadata, and keeps it for as long as its connection stands, whether
// or not the member at its other end still answers. So each stream has a number in its
// metadata, and when one falls silent, later watches use the next number.
type stream struct {
	number   int
	anchored bool
	opened   time.Time // when it was anchored
	unanchor context.CancelFunc
	starting *sync.WaitGroup // the watches that are being started over it
	last     response
	probe    *SharedCall
}

// A response is the header of the last response that started a watch.
type response struct {
	at       time.Time // zero: there was none yet
	revision int64
	cluster  uint64
}

// streamKey is the metadata key of a stream's number.
const streamKey = "pawl-stream"

// streams has the present stream of a store. Its mutex is taken before that of tasks.
type streams struct {
	client    *clientv3.Client
	anchorKey string
	tasks     *tasks

	mu      sync.Mutex // guards present
	present stream
}

func newStreams(client *clientv3.Client, anchorKey string, t *tasks) *streams {
	return &streams{client: client, anchorKey: anchorKey, tasks: t, present: stream{probe: &SharedCall{}}}
}

// join returns ctx for a watch over the present stream, the stream's number, and a
// function to call when the watch has started or failed to.
func (s *streams) join(ctx context.Context) (over context.Context, number int, started func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	over, number, started = numbered(ctx, s.present.number), s.present.number, func() {}
	if s.anchorLocked() {
		s.present.starting.Add(1)
		started = s.present.starting.Done
	}
	return over, number, started
}

// numbered returns ctx for a watch over a stream. A watch on a member that has lost its
// leader ends instead of staying silent.
func numbered(ctx context.Context, number int) context.Context {
	ctx = clientv3.WithRequireLeader(ctx)
	return metadata.AppendToOutgoingContext(ctx, streamKey, strconv.Itoa(number))
}

// anchorLocked keeps the present stream open with a watch of its own, and reports
// whether there is one; after close there is not. A stream ends with its last watch,
// and opening one costs a round trip and, under a password, a hash that is slow by
// design.
func (s *streams) anchorLocked() bool {
	if s.tasks.isClosed() {
		return false
	}
	if s.present.anchored {
		return true
	}
	ctx, cancel := context.WithCancel(context.Background())
	over := numbered(ctx, s.present.number)
	if !s.tasks.start(func() { // ends when the stream is released, by replaceLocked or close
		defer cancel()
		for ctx.Err() == nil {
			for range s.client.Watch(over, s.anchorKey) {
			}
			driverkit.Pause(ctx, retryPause)
		}
	}) {
		cancel()
		return false
	}
	p := &s.present
	p.anchored, p.opened, p.unanchor, p.starting = true, time.Now(), cancel, &sync.WaitGroup{}
	return true
}

// release ends s after the last watch that is being started over it. A client of etcd
// can never be closed if one of its streams ends, with its last watch, while another
// watch is being refused over the same stream.
func (s stream) release() {
	if s.anchored {
		s.starting.Wait()
		s.unanchor()
	}
}

// replace makes later watches use another stream than the one with this number.
func (s *streams) replace(number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replaceLocked(number)
}

// replaceRefusing replaces a stream that refused a watch, and reports whether there is
// another one to try. A stream in its first second is not replaced: a server that
// refuses every watch would otherwise be sent streams without end.
func (s *streams) replaceRefusing(number int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.present.number == number && time.Since(s.present.opened) < time.Second {
		return false
	}
	s.replaceLocked(number)
	return true
}

func (s *streams) replaceLocked(number int) {
	if s.present.number != number {
		return // it was replaced already
	}
	if s.tasks.start(s.present.release) { // ends when the watches that are being started have started or failed
		s.present = stream{number: number + 1, probe: &SharedCall{}}
	}
}

// responded records a response over a stream.
func (s *streams) responded(number int, r response) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.present.number == number {
		s.present.last = r
	}
}

// silent reports whether a stream has started no watch for d, or was replaced.
func (s *streams) silent(number int, d time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.present.number != number || time.Since(s.present.last.at) >= d
}

// endIfSilent waits until answered is closed. If the stream falls silent for limit before
// that, it calls end and returns true.
func (s *streams) endIfSilent(number int, limit time.Duration, answered <-chan struct{}, end func()) bool {
	ticker := time.NewTicker(limit)
	defer ticker.Stop()
	for {
		select {
		case <-answered:
			return false
		case <-ticker.C:
			if s.silent(number, limit) {
				end()
				return true
			}
		}
	}
}

// close releases the last stream, after tasks were closed so that no other follows.
func (s *streams) close() {
	s.mu.Lock()
	last := s.present
	s.mu.Unlock()
	last.release()
}
