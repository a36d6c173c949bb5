package zklock

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/zklock/internal/zkstore"
)

// The servers delete an empty container once a minute, but no more than ten thousand of all:
// above 166 new names a second there would be ever more. So the client that has given back a
// hold deletes the line's container, unless it has another hold of that name meanwhile.
const (
	idleInterval = 15 * time.Second // a line is idle for one to two of them
	idleBatch    = 100              // deleted in one Multi
	idleParallel = 8
)

// idleLines are the lines in which holds were given back.
type idleLines struct {
	recent, before map[string]struct{} // in this interval, and in the one before
	sweeping       bool
}

// lineLeft notes that a hold was given back.
func (e *Engine) lineLeft(path string) {
	e.mu.Lock()
	if e.idle.recent == nil {
		e.idle.recent = map[string]struct{}{}
	}
	e.idle.recent[path] = struct{}{}
	begun := e.idle.sweeping
	e.idle.sweeping = true
	e.mu.Unlock()
	if begun {
		return
	}
	_ = e.sessions.Go(func(ctx context.Context) { // what a closed engine leaves, the servers delete
		for driverkit.Pause(ctx, idleInterval) {
			if !e.sweepLines(ctx) {
				return
			}
		}
	})
}

// sweepLines deletes the lines that have been idle, and reports whether there may be more.
func (e *Engine) sweepLines(ctx context.Context) bool {
	e.mu.Lock()
	maps.DeleteFunc(e.idle.before, func(path string, _ struct{}) bool {
		_, used := e.idle.recent[path]
		return used
	})
	idle := slices.Collect(maps.Keys(e.idle.before))
	e.idle.before, e.idle.recent = e.idle.recent, nil
	e.idle.sweeping = len(idle)+len(e.idle.before) > 0
	more := e.idle.sweeping
	e.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 2*idleInterval)
	defer cancel()
	batches := slices.Collect(slices.Chunk(idle, idleBatch))
	_ = forEachOf(ctx, len(batches), idleParallel, func(ctx context.Context, i int) error {
		return e.deleteLines(ctx, batches[i]) // what fails is left to the servers
	})
	return more
}

// deleteLines deletes containers that are empty.
func (e *Engine) deleteLines(ctx context.Context, paths []string) error {
	for len(paths) > 0 {
		ops := make([]any, len(paths))
		for i, path := range paths {
			ops[i] = &zk.DeleteRequest{Path: path, Version: -1}
		}
		var res []zk.MultiResponse
		err := e.main.Call(ctx, func(c *zk.Conn) (err error) {
			res, err = c.Multi(ops...)
			return err
		})
		if err == nil || zkstore.OutcomeUnknown(err) || errors.Is(err, driver.ErrDenied) {
			return err
		}
		at := failedOp(res) // it is in use, or was deleted by the servers
		paths = slices.Delete(paths, at, at+1)
	}
	return nil
}
