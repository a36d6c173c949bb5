package zklock

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// Records are found by their ends. Each that has one has an entry, in a bucket of the period
// that it ends in:
//
//	/pawl/records/@ends/1795049520/2a/report@5f0c9a315d77e0b1.1
//
// A period is named after the second at which it is over: all its records have ended by then.
// A bucket is a hash of the key, so that none has too many children. An entry names the
// incarnation and the version of the record that it is about, so that records are deleted
// without being read. It is written and deleted in the Multi that writes or deletes the record;
// only an older pawl leaves a record without one, or an entry without its record.
const (
	endsNode = "@ends" // not the name of any record: those are encoded
	walkNode = "@walk"
	buckets  = 64
)

// An endEntry is what the name of an entry says.
type endEntry struct {
	record      string // the name of its node
	incarnation string
	version     int32
}

func (n endEntry) String() string {
	return fmt.Sprintf("%s@%s.%d", n.record, n.incarnation, n.version)
}

// parseEntry reads the name of an entry; ok is false for a name that is none.
func parseEntry(name string) (n endEntry, ok bool) {
	record, state, _ := strings.Cut(name, "@")
	incarnation, number, ok := strings.Cut(state, ".")
	version, err := strconv.ParseInt(number, 10, 32)
	_, encoded := decode(record)
	return endEntry{record, incarnation, int32(version)}, ok && encoded && err == nil && incarnation != ""
}

// shortestPeriod is the least that lies between the names of two periods. Records that are
// kept long have longer ones, of a sixteenth to a thirty-second of that: so there are never
// many periods, however many records.
const shortestPeriod = 16 * time.Second

// periodOf is the period of a record that was written at millis, in seconds.
func periodOf(millis int64, keep time.Duration) int64 {
	length := shortestPeriod
	for length <= keep/32 {
		length *= 2
	}
	end, step := millis+keepMillis(keep), length.Milliseconds()
	return (end + step - 1) / step * step / 1000
}

// entryPath is where the entry of a record is that was written at millis; empty if it has no end.
func (e *Engine) entryPath(n endEntry, millis int64, keep time.Duration) string {
	if keep <= 0 {
		return ""
	}
	h := fnv.New32a()
	h.Write([]byte(n.record))
	return fmt.Sprintf("%s/%d/%02x/%s", e.ends, periodOf(millis, keep), h.Sum32()%buckets, n)
}

// commit sends a Multi of ops, and with it deletes the entry drop and creates the entry add,
// where these are not empty. An entry that cannot be changed does not keep the rest from
// being done: a cleaner drops one that is about nothing, and the walk finds a record without.
func (e *Engine) commit(ctx context.Context, ops []any, drop, add string) (res []zk.MultiResponse, err error) {
	for {
		all, dropAt, addAt := ops[:len(ops):len(ops)], -1, -1
		if drop != "" {
			dropAt, all = len(all), append(all, &zk.DeleteRequest{Path: drop, Version: -1})
		}
		if add != "" {
			addAt, all = len(all), append(all, &zk.CreateRequest{Path: add, Acl: e.acl()})
		}
		if len(all) == 0 {
			return nil, nil
		}
		err := e.main.Call(ctx, func(c *zk.Conn) (err error) {
			res, err = c.Multi(all...)
			return err
		})
		if err == nil {
			return res, nil
		}
		refused := errors.Is(err, driver.ErrDenied) || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNodeExists)
		if ctx.Err() != nil || !refused { // res may still be written to
			return nil, err
		}
		switch failedOp(res) {
		case dropAt:
			drop = ""
		case addAt:
			if !errors.Is(err, zk.ErrNoNode) {
				add = ""
			} else if err := e.createBucket(ctx, parentOf(add)); errors.Is(err, driver.ErrDenied) {
				add = ""
			} else if err != nil {
				return nil, err
			}
		default:
			return nil, err
		}
	}
}

// failedOp is the index of the operation that made a Multi fail.
func failedOp(res []zk.MultiResponse) int {
	at := 0
	for at < len(res)-1 && res[at].Error == nil {
		at++
	}
	return at
}

// createBucket creates a bucket and its period: containers, which the servers delete if no
// cleaner does.
func (e *Engine) createBucket(ctx context.Context, path string) error {
	create := func(path string) error {
		err := e.main.Call(ctx, func(c *zk.Conn) error {
			_, err := c.CreateContainer(path, nil, zk.FlagContainer, e.acl())
			return err
		})
		if errors.Is(err, zk.ErrNodeExists) {
			return nil
		}
		return err
	}
	for {
		err := create(path)
		if !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		err = create(parentOf(path))
		if errors.Is(err, zk.ErrNoNode) {
			err = e.createPath(ctx, e.main, e.ends)
		}
		if err != nil {
			return err
		}
	}
}

func parentOf(path string) string { return path[:strings.LastIndexByte(path, '/')] }

// keepMillis is how long a record is kept, in the milliseconds that are written into it.
func keepMillis(keep time.Duration) int64 {
	return int64((keep + time.Millisecond - 1) / time.Millisecond)
}
