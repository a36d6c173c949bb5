package zklock

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/zklock/internal/zkstore"
)

const (
	expireInterval = time.Minute
	expireMost     = 1000 // records read in one run
	expireTimeout  = 30 * time.Second
)

// expireRecords deletes expired records from time to time, beside the caller. ZooKeeper
// deletes nodes by itself only where its servers were configured to.
func (e *Engine) expireRecords() {
	now := driverkit.Now()
	e.mu.Lock()
	due := e.expiredAt == 0 || now.Sub(e.expiredAt) >= expireInterval
	if due {
		e.expiredAt = now
	}
	e.mu.Unlock()
	if !due {
		return
	}
	_ = e.sessions.Go(func(ctx context.Context) { // a closed engine deletes none
		ctx, cancel := context.WithTimeout(ctx, expireTimeout)
		defer cancel()
		_ = e.expireSome(ctx) // the next run tries again
	})
}

// expireSome deletes the expired ones among some of the records.
func (e *Engine) expireSome(ctx context.Context) error {
	millis, err := e.fetchTime(ctx, e.records)
	if err != nil {
		return err
	}
	var nodes []string
	err = e.main.Call(ctx, func(c *zk.Conn) (err error) {
		nodes, _, err = c.Children(e.records)
		return err
	})
	if err != nil {
		return err
	}
	rand.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	for _, node := range nodes[:min(len(nodes), expireMost)] {
		if _, ok := decode(node); !ok {
			continue
		}
		r, err := e.readRecord(ctx, e.records+"/"+node, millis)
		if err == nil && r.expired {
			_, err = e.writeRecord(ctx, r, nil, 0) // by its exact version: a later one stays
		}
		if err != nil && zkstore.OutcomeUnknown(err) {
			return err
		}
	}
	return nil
}
