package compare

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A Counter counts the work of a server between two calls.
type Counter interface {
	Start(ctx context.Context) error
	// Stop returns how many commands clients have sent since Start.
	Stop(ctx context.Context) (commands int, err error)
}

// Line measures n clients, each with connections of its own, that wait for one name
// until all have had it. Each holds it for hold.
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

// A line is a number of clients, of which the first holds the name while the others
// arrive one after the other.
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

// arrivalPause is the time between two arrivals, long enough for the server to see
// them in this order.
const arrivalPause = 3 * time.Millisecond

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
		time.Sleep(arrivalPause)
	}
	err = l.counter.Start(ctx)
	server, begun := cpuTime(l.servers...), time.Now()
	err = errors.Join(err, unlock())
	group.Wait()
	took := time.Since(begun)
	server = cpuTime(l.servers...) - server
	commands, stopErr := l.counter.Stop(ctx)
	if err := errors.Join(err, context.Cause(ctx), stopErr); err != nil {
		return nil, err
	}
	handoffs := float64(len(order))
	return []float64{
		float64(commands) / handoffs,
		float64(outOfOrder(order)),
		float64(took.Milliseconds()) / handoffs,
		float64(mostOvertaken(order)),
		server.Seconds() * 1e6 / handoffs,
	}, nil
}

// outOfOrder counts the clients that were served before an earlier one.
func outOfOrder(order []int) (n int) {
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

// mostOvertaken returns how many later clients overtook the one that was overtaken
// most.
func mostOvertaken(order []int) (most int) {
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
