package redisclient

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/pawl-go/pawl/driver"
)

// underWay is how many chunks of one node are under way at a time: enough for a distant
// server, and few of the connections that a client lends.
const underWay = 4

// Many is DoMany of a [Client], or what sends in its place.
type Many func(ctx context.Context, calls []Call, out []Answer)

// InChunks divides calls, in their order, into chunks of calls of one node that are about
// up to size claims, and calls send with the indexes of each. Several chunks of a node are
// under way at a time, and nodes do not wait for each other. After ctx has ended, no
// further chunk is sent. An error is one of send's, ErrGone if there is one, or ctx's.
func InChunks(ctx context.Context, c Client, calls []Call, size int, send func(chunk []int) error) error {
	var all sync.WaitGroup
	var mu sync.Mutex // guards failed
	failed := error(nil)
	fail := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil && !errors.Is(failed, driver.ErrGone) {
			failed = err
		}
	}
	for _, chunks := range chunksByNode(c.NodesOf(ctx, calls), calls, size) {
		next := make(chan []int, len(chunks))
		for _, chunk := range chunks {
			next <- chunk
		}
		close(next)
		for range min(underWay, len(chunks)) {
			all.Go(func() { // ends with ctx; this call waits for it
				for chunk := range next {
					if ctx.Err() != nil {
						return
					}
					fail(send(chunk))
				}
			})
		}
	}
	all.Wait()
	fail(ctx.Err())
	return failed
}

func chunksByNode(nodes []string, calls []Call, size int) map[string][][]int {
	all, room := map[string][][]int{}, map[string]int{}
	for i := range calls {
		node, claims := "", max(calls[i].Claims, 1)
		if nodes != nil {
			node = nodes[i]
		}
		chunks := all[node]
		if room[node] < claims {
			chunks = append(chunks, nil)
			room[node] = size
		}
		last := len(chunks) - 1
		chunks[last] = append(chunks[last], i)
		room[node] -= claims
		all[node] = chunks
	}
	return all
}

// A Beater sends the beats of one session.
type Beater struct {
	late atomic.Bool // the last beat had no answer in time
}

// Begin returns how a beat is sent: if the last one had no answer in time, its connection
// may be dead without notice, and a lease must not end because of that. After the beat,
// end is called with its error.
func (b *Beater) Begin(ctx context.Context, c Client) (send Many, end func(error), err error) {
	release := func() {}
	if send = c.DoMany; b.late.Load() {
		if send, release, err = c.Probed(ctx); err != nil {
			return nil, nil, Wrap(err)
		}
	}
	return send, func(err error) {
		release()
		b.late.Store(errors.Is(err, context.DeadlineExceeded))
	}, nil
}

// SendSome sends the calls with the given indexes, as [RunMany] does.
func SendSome(ctx context.Context, send Many, calls []Call, at []int) []Answer {
	some, out := make([]Call, len(at)), make([]Answer, len(at))
	for k, i := range at {
		some[k] = calls[i]
	}
	if len(at) > 0 {
		RunMany(ctx, send, some, out)
	}
	return out
}
