package zklock

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// A record is a node with one child. Its version is the zxid of its last write,
// which is never used again. ZooKeeper's own version, on which a write can depend,
// begins at 0 again for a node that was deleted and made anew; so a write depends
// also on the child, whose random name tells one making from the next.
type record struct {
	path    string
	stat    *zk.Stat // nil: there is none
	brand   string   // the child's name
	keep    time.Duration
	value   []byte
	ended   bool // it was to be kept no longer
	foreign bool // not a record of ours
}

// recordMark begins a record's data: "r1 <brand> <keep in ms>\n<value>".
const recordMark = "r1"

func (r *record) data(value []byte, keep time.Duration) []byte {
	millis := (keep + time.Millisecond - 1) / time.Millisecond
	return append(fmt.Appendf(nil, "%s %s %d\n", recordMark, r.brand, millis), value...)
}

func (r *record) parse(data []byte) {
	head, value, ok := bytes.Cut(data, []byte("\n"))
	parts := bytes.Split(head, []byte(" "))
	if !ok || len(parts) != 3 || string(parts[0]) != recordMark {
		r.foreign = true
		return
	}
	millis, err := strconv.ParseInt(string(parts[2]), 10, 64)
	r.foreign = err != nil
	r.brand, r.keep, r.value = string(parts[1]), time.Duration(millis)*time.Millisecond, value
}

func (r *record) version() uint64 {
	if r.stat == nil || r.ended {
		return 0
	}
	return uint64(r.stat.Mzxid)
}

// fetchRecord reads a record as it is now, by the leader's clock.
func (e *Engine) fetchRecord(ctx context.Context, key string) (*record, error) {
	if err := e.check(ctx); err != nil {
		return nil, err
	}
	millis, err := e.tick(ctx, e.records)
	if err != nil {
		return nil, err
	}
	r := &record{path: e.records + "/" + encode(key)}
	var data []byte
	var stat *zk.Stat
	err = e.main.do(ctx, nil, func(c *zk.Conn) (err error) {
		data, stat, err = c.Get(r.path)
		return err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	r.stat = stat
	r.parse(data)
	if r.foreign {
		return nil, fmt.Errorf("zklock: node %s is not a record", r.path)
	}
	r.ended = r.keep > 0 && time.Duration(millis-stat.Mtime)*time.Millisecond >= r.keep
	return r, nil
}

// Load returns a record's value and version.
func (e *Engine) Load(ctx context.Context, key string) ([]byte, uint64, error) {
	r, err := e.fetchRecord(ctx, key)
	if err != nil || r.version() == 0 {
		return nil, 0, err
	}
	return r.value, r.version(), nil
}

// Store writes a record if its version is still ifVersion.
func (e *Engine) Store(ctx context.Context, key string, value []byte, ifVersion uint64, keep time.Duration) (uint64, error) {
	if len(value) > driver.MaxRecord {
		return 0, driver.ErrTooLarge
	}
	for {
		r, err := e.fetchRecord(ctx, key)
		if err != nil {
			return 0, err
		}
		if r.version() != ifVersion {
			return r.version(), driver.ErrConflict
		}
		version, err := e.write(ctx, r, value, keep)
		switch {
		case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrNotEmpty):
			continue // it was changed in between: the next look tells by how much
		case err == nil && keep > 0:
			e.sweepRecords()
		}
		return version, err
	}
}

// write makes, changes or ends the record that was read, if it is still that one.
func (e *Engine) write(ctx context.Context, r *record, value []byte, keep time.Duration) (uint64, error) {
	var ops []any
	set := -1 // which of them answers with the version
	switch {
	case value == nil && r.stat == nil:
		return 0, nil
	case value == nil:
		ops = []any{
			&zk.DeleteRequest{Path: r.path + "/" + r.brand, Version: -1},
			&zk.DeleteRequest{Path: r.path, Version: r.stat.Version},
		}
	case r.stat == nil:
		r.brand = newBrand()
		ops = []any{
			&zk.CreateRequest{Path: r.path, Acl: e.acl()},
			&zk.CreateRequest{Path: r.path + "/" + r.brand, Acl: e.acl()},
			&zk.SetDataRequest{Path: r.path, Data: r.data(value, keep), Version: 0},
		}
		set = 2
	default:
		ops = []any{
			&zk.CheckVersionRequest{Path: r.path + "/" + r.brand, Version: -1},
			&zk.SetDataRequest{Path: r.path, Data: r.data(value, keep), Version: r.stat.Version},
		}
		set = 1
	}
	var res []zk.MultiResponse
	err := e.main.do(ctx, nil, func(c *zk.Conn) (err error) {
		res, err = c.Multi(ops...)
		return err
	})
	if err != nil || set < 0 {
		return 0, err
	}
	return uint64(res[set].Stat.Mzxid), nil
}

func newBrand() string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
