package redisline

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"strconv"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// listPage is the number of names that are read at a time.
const listPage = 200

// List yields the claims on names that begin with prefix, the name that is prefix
// itself first. It scans all keys of the server, so with many millions of keys it takes
// seconds; claims that come or go meanwhile may be missed.
func (e *Engine) List(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		if err := cmp.Or(ctx.Err(), e.BadOption); err != nil {
			yield(driver.Entry{}, err)
			return
		}
		if prefix != "" && !e.listNames(ctx, []string{prefix}, yield) {
			return
		}
		names, err := e.names(ctx, prefix)
		if err != nil {
			yield(driver.Entry{}, redisclient.Wrap(err))
			return
		}
		for page := range slices.Chunk(names, listPage) {
			if !e.listNames(ctx, page, yield) {
				return
			}
		}
	}
}

// Line returns the claims of one name.
func (e *Engine) Line(ctx context.Context, name string) (line []driver.Entry, err error) {
	if err := cmp.Or(ctx.Err(), e.BadOption); err != nil {
		return nil, err
	}
	e.listNames(ctx, []string{name}, func(x driver.Entry, failed error) bool {
		line, err = append(line, x), failed
		return true
	})
	if err != nil {
		return nil, err
	}
	return line, nil
}

// names returns the names with a hold or a line that begin with prefix, except prefix
// itself, sorted.
func (s *store) names(ctx context.Context, prefix string) ([]string, error) {
	found := map[string]struct{}{}
	for _, pattern := range s.Keys.Patterns(prefix) {
		err := s.Client.Scan(ctx, pattern, func(keys []string) error {
			for _, key := range keys {
				if name, ok := s.Keys.Name(key); ok && name != prefix {
					found[name] = struct{}{}
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

func (s *store) listNames(ctx context.Context, names []string, yield func(driver.Entry, error) bool) bool {
	calls := make([]redisclient.Call, len(names))
	for i, name := range names {
		calls[i] = redisclient.Call{Script: listScript, Keys: s.Keys.Of(name).All()}
	}
	answers := make([]redisclient.Answer, len(names))
	redisclient.RunMany(ctx, s.Client.DoMany, calls, answers)
	for i, a := range answers {
		if redisclient.Code(a.Err) == "WRONGTYPE" {
			continue // not a lock
		}
		if a.Err != nil {
			yield(driver.Entry{}, redisclient.Wrap(a.Err))
			return false
		}
		for _, x := range parseLine(names[i], a.Array) {
			if !yield(x, nil) {
				return false
			}
		}
	}
	return true
}

// Evict breaks exactly the claim that x shows and lets in the claims that fit then.
// A hold of another client is broken if its value is unchanged.
func (e *Engine) Evict(ctx context.Context, x driver.Entry) error {
	if err := cmp.Or(ctx.Err(), e.BadOption); err != nil {
		return err
	}
	args := []string{"", x.ID}
	if !x.Foreign {
		args = []string{x.ID, strconv.Itoa(x.Try), strconv.FormatUint(x.Fence, 10), flag(x.Held)}
	}
	r, err := e.run(ctx, evictScript, e.Keys.Of(x.Name).All(), args...)
	if err != nil {
		return e.wrap(x.Name, err)
	}
	if r.Int == 0 {
		return driver.ErrGone
	}
	return nil
}
