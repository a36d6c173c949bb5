package zklock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/zklock/internal/zkstore"
)

// Records without an entry, see ends.go, are found by a walk through all of them: a part of
// their names at a time, by one process at a time. The walk's node says after which name it
// goes on; nothing, once it has been through.
const (
	walkPart  = 10_000
	walkPause = 10 * time.Minute // between two parts
	walkAgain = 24 * time.Hour   // between two walks
)

// walk takes the next part, of up to most names, if it is time.
func (e *Engine) walk(ctx context.Context, millis int64, most int) error {
	after, stat, err := e.get(ctx, e.walked)
	if errors.Is(err, zk.ErrNoNode) {
		return e.createPath(ctx, e.main, e.walked) // the first part is due one pause later
	}
	if err != nil {
		return err
	}
	pause := walkPause
	if len(after) == 0 && stat.Version > 0 {
		pause = walkAgain
	}
	if since := time.Duration(millis-stat.Mtime) * time.Millisecond; since >= 0 && since < pause {
		return nil
	}
	nodes, err := e.children(ctx, e.records)
	if err != nil {
		return err
	}
	first, found := slices.BinarySearch(nodes, string(after))
	if found {
		first++
	}
	part, next := nodes[first:], ""
	if len(part) > most {
		part = part[:most]
		next = part[most-1]
	}
	if err := e.set(ctx, e.walked, []byte(next), stat.Version); err != nil {
		return err
	}
	return forEach(ctx, len(part), func(ctx context.Context, i int) error { return e.walkOver(ctx, part[i], millis) })
}

// walkOver deletes a record if it has expired.
func (e *Engine) walkOver(ctx context.Context, node string, millis int64) error {
	if _, ok := decode(node); !ok {
		return nil
	}
	r, err := e.readRecord(ctx, e.records+"/"+node, millis)
	if err == nil && r.expired {
		_, err = e.writeRecord(ctx, r, nil, 0) // by its exact version: a later one stays
	}
	if errors.Is(err, errNoRecord) || err != nil && !zkstore.OutcomeUnknown(err) {
		return nil
	}
	return err
}
