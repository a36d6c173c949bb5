package redislock

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"strconv"

	"github.com/pawl-go/pawl/driver"
)

// listPage is how many names are read in one piece.
const listPage = 200

// List yields the claims on names that begin with prefix, the name that is prefix
// itself first. It goes through all keys of the server, piece by piece, so on a
// server with many millions of keys it takes seconds; what comes or goes meanwhile
// may be missed.
func (e *Engine) List(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		if err := cmp.Or(ctx.Err(), e.bad); err != nil {
			yield(driver.Entry{}, err)
			return
		}
		if prefix != "" && !e.listNames(ctx, []string{prefix}, yield) {
			return
		}
		names, err := e.names(ctx, prefix)
		if err != nil {
			yield(driver.Entry{}, fault(err))
			return
		}
		for page := range slices.Chunk(names, listPage) {
			if !e.listNames(ctx, page, yield) {
				return
			}
		}
	}
}

// names returns the names with a hold or a line that begin with prefix, but for
// prefix itself, in order.
func (e *Engine) names(ctx context.Context, prefix string) ([]string, error) {
	found := map[string]struct{}{}
	for _, pattern := range e.keys.patterns(prefix) {
		err := e.c.Scan(ctx, pattern, func(keys []string) error {
			for _, key := range keys {
				if name, ok := e.keys.nameOf(key); ok && name != prefix {
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

func (e *Engine) listNames(ctx context.Context, names []string, yield func(driver.Entry, error) bool) bool {
	calls := make([]Command, len(names))
	for i, name := range names {
		at := e.keys.place(name)
		calls[i] = Command{at.hold, listScript.call(4, at.keys())}
	}
	answers := make([]Answer, len(names))
	runEach(ctx, listScript, e.c.Each, calls, answers)
	for i, a := range answers {
		if code(a.Err) == "WRONGTYPE" {
			continue // no lock
		}
		if a.Err != nil {
			yield(driver.Entry{}, fault(a.Err))
			return false
		}
		for _, x := range listed(names[i], a.Array) {
			if !yield(x, nil) {
				return false
			}
		}
	}
	return true
}

// listed makes entries of what lua/list.lua replies, in the line's order: holders
// and then waiters, each as they came.
func listed(name string, a []Reply) []driver.Entry {
	if len(a) < 3 {
		return nil
	}
	var all []driver.Entry
	value, now := a[0].Text, a[2].Text
	if value != "" && value != sharedHold {
		x := holds(name, value, millis(a[1].Int))
		if !x.Foreign {
			x.Since = max(0, micros(count(now)-sinceOf(value)))
		}
		all = append(all, x)
	}
	type entrant struct {
		driver.Entry
		token int64
	}
	var line []entrant
	for rest := a[3:]; len(rest) >= 3; rest = rest[3:] {
		if x, ok := shares(name, rest[0].Text, rest[1].Text, now, millis(rest[2].Int)); ok {
			line = append(line, entrant{x, arrival(rest[1].Text)})
		}
	}
	slices.SortFunc(line, func(x, y entrant) int { return cmp.Compare(x.token, y.token) })
	for _, p := range line {
		all = append(all, p.Entry)
	}
	return all
}

// sharedHold is what a hold is while claims share it.
const sharedHold = "p1 shared"

// arrival is the token of a claim in the line, also of one that has none to show.
func arrival(record string) int64 {
	if m := recordForm().FindStringSubmatch(record); m != nil {
		return count(m[4])
	}
	return 0
}

// Evict breaks exactly the claim that x shows and lets in whoever fits then.
// Another client's hold is broken if its value is still the same.
func (e *Engine) Evict(ctx context.Context, x driver.Entry) error {
	if err := cmp.Or(ctx.Err(), e.bad); err != nil {
		return err
	}
	args := e.keys.place(x.Name).keys()
	if x.Foreign {
		args = append(args, "", x.ID)
	} else {
		args = append(args, x.ID, strconv.Itoa(x.Try), strconv.FormatUint(x.Fence, 10), digit(x.Held))
	}
	r, err := e.run(ctx, evictScript, 4, args)
	if err != nil {
		return e.faultAt(x.Name, err)
	}
	if r.Int == 0 {
		return driver.ErrGone
	}
	return nil
}

func digit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// Line returns the claims of one name.
func (e *Engine) Line(ctx context.Context, name string) ([]driver.Entry, error) {
	if err := cmp.Or(ctx.Err(), e.bad); err != nil {
		return nil, err
	}
	return gather(func(yield func(driver.Entry, error) bool) { e.listNames(ctx, []string{name}, yield) })
}

// gather collects what list yields, up to its first error.
func gather(list iter.Seq2[driver.Entry, error]) (all []driver.Entry, err error) {
	for x, err := range list {
		if err != nil {
			return nil, err
		}
		all = append(all, x)
	}
	return all, nil
}
