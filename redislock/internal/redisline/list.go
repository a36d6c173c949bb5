package redisline

import (
	"cmp"
	"context"
	"strconv"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// listPart is the number of claims of one name that are read in one step.
const listPart = 1000

// listNames reads the lines of names, for [keyspace.Lister].
func (s *store) listNames(ctx context.Context, names []string, yield func(driver.Entry, error) bool) bool {
	calls := make([]redisclient.Call, len(names))
	for i, name := range names {
		calls[i] = s.listCall(name, "-inf", listPart)
	}
	answers := make([]redisclient.Answer, len(names))
	redisclient.RunMany(ctx, s.Client.DoMany, calls, answers)
	for i, a := range answers {
		line := newLineReader(names[i])
		for at, n := line.read(a.Reply); a.Err == nil && at != ""; at, n = line.read(a.Reply) {
			a.Reply, a.Err = redisclient.Run(ctx, s.Client, s.listCall(names[i], at, n))
		}
		if redisclient.Code(a.Err) == "WRONGTYPE" {
			continue // not a lock
		}
		if a.Err != nil {
			yield(driver.Entry{}, redisclient.Wrap(a.Err))
			return false
		}
		for _, x := range line.entries() {
			if !yield(x, nil) {
				return false
			}
		}
	}
	return true
}

// listCall reads n claims of a name, from an expiry on, see list.lua.
func (s *store) listCall(name, from string, n int) redisclient.Call {
	return redisclient.Call{Script: listScript, Keys: s.Keys.Of(name).All(), Args: []string{from, strconv.Itoa(n)}}
}

// Evict breaks exactly the claim that x shows and lets in the claims that fit then.
// A hold of another client is broken if its value is unchanged.
func (e *Engine) Evict(ctx context.Context, x driver.Entry) error {
	if err := cmp.Or(ctx.Err(), e.Refuse); err != nil {
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
