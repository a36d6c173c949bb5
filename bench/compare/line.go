package contest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A Counter tells what a server had to do between two calls.
type Counter interface {
	Start(ctx context.Context) error
	// Stop returns how many commands clients have sent since Start.
	Stop(ctx context.Context) (commands int, err error)
}

// Line is n clients that wait for one name, each with connections of its own, and
// hand it on from one to the next until all have had it. Each holds it for hold.
func Line(n int, hold time.Duration, counter Counter, servers ...int) Work {
	return Work{
		Name: fmt.Sprintf("line-%d", n),
		Does: fmt.Sprintf("%d waiting clients, each holds the name for %v and hands it on; out of order are those served before somebody who had come earlier, overtaken is by how many who came later the one who was passed by most", n, hold),
		Units: []Unit{
			{Name: "commands/handoff", Fewer: true}, {Name: "out-of-order", Fewer: true}, {Name: "ms/handoff", Fewer: true},
			{Name: "overtaken", Fewer: true}, {Name: "server-µs/handoff", Fewer: true},
		},
		Begin: func(ctx context.Context, c Contender) (Rounds, error) {
			l := &line{hold: hold, counter: counter, servers: servers}
			for range n + 1 {
				client, err := c.Open(ctx)
				if err != nil {
					return nil, errors.Join(err, l.Close())
				}
				l.clients = append(l.clients, client)
			}
			return l, nil
		},
	}
}

// A line is many clients of which the first holds the name, and the others come one
// after another.
type line struct {
	clients []Locker
	hold    time.Duration
	counter Counter
	servers []int // by process id
}

func (l *line) Close() (err error) {
	for _, c := range l.clients {
		err = errors.Join(err, c.Close())
	}
	return err
}

// arrival is the time from one client's arrival to the next's, long enough that the
// server sees them in this order.
const arrival = 3 * time.Millisecond

func (l *line) Round(ctx context.Context, _ time.Duration) ([]float64, error) {
	const name = "bench/line"
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	unlock, err := l.clients[0].Lock(ctx, name)
	if err != nil {
		return nil, err
	}
	var (
		mu    sync.Mutex // guards order
		order []int
		group sync.WaitGroup
	)
	for i, c := range l.clients[1:] {
		group.Go(func() {
			unlock, err := c.Lock(ctx, name)
			if err != nil {
				cancel(fmt.Errorf("client %d: %w", i, err))
				return
			}
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
			time.Sleep(l.hold)
			if err := unlock(); err != nil {
				cancel(fmt.Errorf("client %d: unlock: %w", i, err))
			}
		})
		time.Sleep(arrival)
	}
	err = l.counter.Start(ctx)
	server, begun := spent(l.servers...), time.Now()
	err = errors.Join(err, unlock())
	group.Wait()
	took := time.Since(begun)
	server = spent(l.servers...) - server
	commands, stopErr := l.counter.Stop(ctx)
	if err := errors.Join(err, context.Cause(ctx), stopErr); err != nil {
		return nil, err
	}
	handoffs := float64(len(order))
	return []float64{
		float64(commands) / handoffs,
		float64(swaps(order)),
		float64(took.Milliseconds()) / handoffs,
		float64(overtaken(order)),
		server.Seconds() * 1e6 / handoffs,
	}, nil
}

// swaps counts who was served before somebody that had come earlier.
func swaps(order []int) (n int) {
	for i, who := range order {
		for _, later := range order[i+1:] {
			if later < who {
				n++
				break
			}
		}
	}
	return n
}

// overtaken returns by how many who had come later the one was passed by most.
func overtaken(order []int) (most int) {
	for i, who := range order {
		passed := 0
		for _, earlier := range order[:i] {
			if earlier > who {
				passed++
			}
		}
		most = max(most, passed)
	}
	return most
}
