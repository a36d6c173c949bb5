package zklock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-zookeeper/zk"
)

// A record is a node with one child. Its version is the zxid of its last write, which is
// never used again. ZooKeeper's own version, on which a write can depend, starts at 0 again
// for a node that was deleted and created anew; so a write depends also on the child, whose
// random name tells one incarnation of the record from the next.
type record struct {
	path        string
	stat        *zk.Stat // nil: there is none
	incarnation string   // the child's name
	keep        time.Duration
	value       []byte
	expired     bool
	readAt      int64 // the leader's time
}

// recordVersion begins a record's data: "r1 <incarnation> <keep in ms>\n<value>".
const recordVersion = "r1"

func (r *record) encode(value []byte, keep time.Duration) []byte {
	return append(fmt.Appendf(nil, "%s %s %d\n", recordVersion, r.incarnation, keepMillis(keep)), value...)
}

// parse reads a record's data; ok is false for data that is not pawl's.
func (r *record) parse(data []byte) (ok bool) {
	head, value, ok := bytes.Cut(data, []byte("\n"))
	parts := bytes.Split(head, []byte(" "))
	if !ok || len(parts) != 3 || string(parts[0]) != recordVersion {
		return false
	}
	millis, err := strconv.ParseInt(string(parts[2]), 10, 64)
	r.incarnation, r.keep, r.value = string(parts[1]), time.Duration(millis)*time.Millisecond, value
	return err == nil
}

func (r *record) version() uint64 {
	if r.stat == nil || r.expired {
		return 0
	}
	return uint64(r.stat.Mzxid)
}

var errNoRecord = errors.New("zklock: a node is not a record")

// fetchRecord reads a record as it is now, by the leader's clock.
func (e *Engine) fetchRecord(ctx context.Context, key string) (*record, error) {
	if err := e.sessions.Begin(ctx); err != nil {
		return nil, err
	}
	millis, err := e.fetchTime(ctx, e.records)
	if err != nil {
		return nil, err
	}
	return e.readRecord(ctx, e.records+"/"+encode(key), millis)
}

// readRecord reads a record as the connected server knows it. millis is the leader's time.
func (e *Engine) readRecord(ctx context.Context, path string, millis int64) (*record, error) {
	r := &record{path: path, readAt: millis}
	var data []byte
	var stat *zk.Stat
	err := e.main.Call(ctx, func(c *zk.Conn) (err error) {
		data, stat, err = c.Get(path)
		return err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	r.stat = stat
	if !r.parse(data) {
		return nil, fmt.Errorf("%w: %s", errNoRecord, path)
	}
	r.expired = r.keep > 0 && time.Duration(millis-stat.Mtime)*time.Millisecond >= r.keep
	return r, nil
}

// writeRecord creates, changes or deletes the record that was read, if it has not changed. A
// nil value deletes it. The entry of its end is written with it, and that of its earlier end
// deleted.
func (e *Engine) writeRecord(ctx context.Context, r *record, value []byte, keep time.Duration) (uint64, error) {
	var ops []any
	drop := e.entryOf(r)
	set := -1 // the operation whose reply has the version
	switch {
	case value == nil && r.stat == nil:
		return 0, nil
	case value == nil:
		ops = r.deletion()
	case r.stat == nil:
		r.incarnation = newNonce()
		ops = []any{
			&zk.CreateRequest{Path: r.path, Acl: e.acl()},
			&zk.CreateRequest{Path: r.path + "/" + r.incarnation, Acl: e.acl()},
			&zk.SetDataRequest{Path: r.path, Data: r.encode(value, keep), Version: 0},
		}
		set = 2
	default:
		ops = []any{
			&zk.CheckVersionRequest{Path: r.path + "/" + r.incarnation, Version: -1},
			&zk.SetDataRequest{Path: r.path, Data: r.encode(value, keep), Version: r.stat.Version},
		}
		set = 1
	}
	add := ""
	if set >= 0 {
		add = e.entryPath(endEntry{base(r.path), r.incarnation, r.nextVersion()}, r.readAt, keep)
	}
	res, err := e.commit(ctx, ops, drop, add)
	if err != nil || set < 0 {
		return 0, err
	}
	return uint64(res[set].Stat.Mzxid), nil
}

// deletion deletes the record exactly as it was read.
func (r *record) deletion() []any { return deletion(r.path, r.incarnation, r.stat.Version) }

func deletion(path, incarnation string, version int32) []any {
	return []any{&zk.DeleteRequest{Path: path + "/" + incarnation, Version: -1}, &zk.DeleteRequest{Path: path, Version: version}}
}

// nextVersion is the version of the record's node once it has been written.
func (r *record) nextVersion() int32 {
	if r.stat == nil {
		return 1 // created and written
	}
	return r.stat.Version + 1
}

// entryOf is where the entry of a record is that was read; empty if it has none. Where its
// write took so long that a period ended meanwhile, the entry is in the period before.
func (e *Engine) entryOf(r *record) string {
	if r.stat == nil {
		return ""
	}
	return e.entryPath(endEntry{base(r.path), r.incarnation, r.stat.Version}, r.stat.Mtime, r.keep)
}
