package zklock

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/zklock/internal/zkstore"
)

const (
	cleanInterval = 20 * time.Second
	cleanTimeout  = time.Minute // of a run; another process begins one where this one has not come to its end by then
	cleanBuckets  = 8           // cleaned at a time
	cleanBatch    = 50          // records deleted in one Multi
	cleanBusy     = "busy"      // what the node of the ends says while a run is under way
)

// cleanRecords begins to delete expired records from time to time, as long as the engine is
// open. ZooKeeper deletes nodes by itself only where its servers were configured to.
func (e *Engine) cleanRecords() {
	e.mu.Lock()
	begun := e.cleaning
	e.cleaning = true
	e.mu.Unlock()
	if begun {
		return
	}
	_ = e.sessions.Go(func(ctx context.Context) { // a closed engine deletes none
		for {
			run, cancel := context.WithTimeout(ctx, cleanTimeout)
			_ = e.cleanOnce(run) // the next run tries again
			cancel()
			if !driverkit.Pause(ctx, cleanInterval) {
				return
			}
		}
	})
}

// cleanOnce deletes what has expired, if it is this process's turn.
func (e *Engine) cleanOnce(ctx context.Context) error {
	millis, err := e.fetchTime(ctx, e.records)
	if err != nil {
		return err
	}
	return driver.Join(e.cleanEnds(ctx, millis), e.walk(ctx, millis, walkPart))
}

// cleanEnds deletes the records of all periods that are over. One process does so at a time:
// two would be in each other's way.
func (e *Engine) cleanEnds(ctx context.Context, millis int64) error {
	data, stat, err := e.get(ctx, e.ends)
	if errors.Is(err, zk.ErrNoNode) {
		return nil // no record has had an end
	}
	if err != nil {
		return err
	}
	since := time.Duration(millis-stat.Mtime) * time.Millisecond
	if since >= 0 && (since < cleanInterval/2 || string(data) == cleanBusy && since < cleanTimeout) {
		return nil // another's turn
	}
	if err := e.set(ctx, e.ends, []byte(cleanBusy), stat.Version); err != nil {
		return err
	}
	periods, err := e.children(ctx, e.ends)
	for _, period := range periods {
		if over, perr := strconv.ParseInt(period, 10, 64); err != nil || perr != nil || over*1000 > millis {
			continue
		}
		err = e.cleanPeriod(ctx, e.ends+"/"+period, millis)
	}
	return driver.Join(err, e.set(ctx, e.ends, nil, stat.Version+1))
}

// cleanPeriod deletes a period and everything in it.
func (e *Engine) cleanPeriod(ctx context.Context, path string, millis int64) error {
	all, err := e.children(ctx, path)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(all, cleanBuckets) {
		err := forEach(ctx, len(some), func(ctx context.Context, i int) error {
			return e.cleanBucket(ctx, path+"/"+some[i], millis)
		})
		if err != nil {
			return err
		}
	}
	return e.deleteEmpty(ctx, path)
}

// cleanBucket deletes the records whose entries are in a bucket, and the bucket.
func (e *Engine) cleanBucket(ctx context.Context, path string, millis int64) error {
	entries, err := e.children(ctx, path)
	if err != nil {
		return err
	}
	for batch := range slices.Chunk(entries, cleanBatch) {
		var ops []any
		for _, name := range batch {
			if n, ok := parseEntry(name); ok {
				ops = append(ops, deletion(e.records+"/"+n.record, n.incarnation, n.version)...)
				ops = append(ops, &zk.DeleteRequest{Path: path + "/" + name, Version: -1})
			}
		}
		if len(ops) == 0 {
			continue
		}
		err := e.main.Call(ctx, func(c *zk.Conn) error {
			_, err := c.Multi(ops...)
			return err
		})
		if err != nil && !zkstore.OutcomeUnknown(err) { // one of them is not as its entry says
			err = forEach(ctx, len(batch), func(ctx context.Context, i int) error {
				return e.settleEntry(ctx, path, batch[i], millis)
			})
		}
		if err != nil {
			return err
		}
	}
	return e.deleteEmpty(ctx, path)
}

// settleEntry deletes the entry, and its record if that has expired. A record with another
// end, written by an older pawl, gets the entry that it lacks.
func (e *Engine) settleEntry(ctx context.Context, bucket, name string, millis int64) error {
	n, ok := parseEntry(name)
	if !ok {
		return nil // not ours
	}
	path := bucket + "/" + name
	r, err := e.readRecord(ctx, e.records+"/"+n.record, millis)
	switch {
	case errors.Is(err, errNoRecord), err == nil && r.stat == nil:
		_, err = e.commit(ctx, nil, path, "")
	case err != nil:
	case r.expired, n.incarnation == r.incarnation && n.version == r.stat.Version:
		_, err = e.commit(ctx, r.deletion(), path, "")
	default:
		check := &zk.CheckVersionRequest{Path: r.path, Version: r.stat.Version}
		_, err = e.commit(ctx, []any{check}, path, e.entryOf(r))
	}
	if err != nil && !zkstore.OutcomeUnknown(err) {
		return nil // it has changed since, or may not be changed by this user: the others can be
	}
	return err
}

// deleteEmpty deletes a node unless it has children.
func (e *Engine) deleteEmpty(ctx context.Context, path string) error {
	err := e.main.Call(ctx, func(c *zk.Conn) error { return c.Delete(path, -1) })
	if err != nil && !zkstore.OutcomeUnknown(err) {
		return nil
	}
	return err
}
