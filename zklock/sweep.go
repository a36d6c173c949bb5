package zklock

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/go-zookeeper/zk"
)

const (
	sweepEvery = time.Minute
	sweepMost  = 1000 // records looked at in one sweep
	sweepLimit = 30 * time.Second
)

// sweepRecords removes records that were to be kept no longer, every now and then
// and beside the caller. ZooKeeper ends nodes by itself only where a server was
// told to at its start.
func (e *Engine) sweepRecords() {
	e.mu.Lock()
	due := e.swept == 0 || now().sub(e.swept) >= sweepEvery
	if due && !e.closed {
		e.swept = now()
		e.tasks.Add(1)
	}
	start := due && !e.closed
	e.mu.Unlock()
	if !start {
		return
	}
	go func() { // Close ends it and waits for it
		defer e.tasks.Done()
		ctx, cancel := context.WithTimeout(e.begun, sweepLimit)
		defer cancel()
		_ = e.sweep(ctx) // the next one tries again
	}()
}

func (e *Engine) sweep(ctx context.Context) error {
	var nodes []string
	err := e.main.do(ctx, nil, func(c *zk.Conn) (err error) {
		nodes, _, err = c.Children(e.records)
		return err
	})
	if err != nil {
		return err
	}
	rand.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	for _, node := range nodes[:min(len(nodes), sweepMost)] {
		key, ok := decode(node)
		if !ok {
			continue
		}
		r, err := e.fetchRecord(ctx, key)
		if err == nil && r.ended {
			_, err = e.write(ctx, r, nil, 0) // by its exact version: not one that has come meanwhile
		}
		if err != nil && unknown(err) {
			return err
		}
	}
	return nil
}
