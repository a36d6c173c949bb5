package keyspace

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// listPage is the number of names that are read at a time.
const listPage = 200

// A Lister reads the claims in a server, for engines with and without scripts.
type Lister struct {
	Client   redisclient.Client
	Keys     Space
	Refuse   error                        // what every call answers, if it is not nil
	Patterns func(prefix string) []string // match the keys of names that begin with prefix

	// Read yields the claims of names, in order, and reports whether to go on.
	Read func(ctx context.Context, names []string, yield func(driver.Entry, error) bool) bool
}

// List yields the claims on names that begin with prefix, the name that is prefix
// itself first. It scans all keys of the server, so with many millions of keys it takes
// seconds; claims that come or go meanwhile may be missed.
func (l Lister) List(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		if err := cmp.Or(ctx.Err(), l.Refuse); err != nil {
			yield(driver.Entry{}, err)
			return
		}
		if prefix != "" && !l.Read(ctx, []string{prefix}, yield) {
			return
		}
		names, err := l.names(ctx, prefix)
		if err != nil {
			yield(driver.Entry{}, redisclient.Wrap(err))
			return
		}
		for page := range slices.Chunk(names, listPage) {
			if !l.Read(ctx, page, yield) {
				return
			}
		}
	}
}

// names returns the names that begin with prefix, except prefix itself, sorted.
func (l Lister) names(ctx context.Context, prefix string) ([]string, error) {
	found := map[string]struct{}{}
	for _, pattern := range l.Patterns(prefix) {
		err := redisclient.Scan(ctx, l.Client, pattern, func(key string) {
			if name, ok := l.Keys.Name(key); ok && name != prefix {
				found[name] = struct{}{}
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// Line returns the claims of one name.
func (l Lister) Line(ctx context.Context, name string) (line []driver.Entry, err error) {
	if err := cmp.Or(ctx.Err(), l.Refuse); err != nil {
		return nil, err
	}
	l.Read(ctx, []string{name}, func(x driver.Entry, failed error) bool {
		line, err = append(line, x), failed
		return true
	})
	if err != nil {
		return nil, err
	}
	return line, nil
}
