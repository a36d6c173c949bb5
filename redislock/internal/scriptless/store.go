package scriptless

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/redislock/internal/keyspace"
	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// store is the part of an engine that its sessions share.
type store struct {
	Config
	sessions *driverkit.Sessions[*session]
	commands atomic.Pointer[compareCommands] // nil until the server was probed, which Open waits for
}

// Ready returns why nothing can be granted. The first call finds the server's commands.
func (s *store) Ready(ctx context.Context) error {
	if err := cmp.Or(ctx.Err(), s.Refuse); err != nil {
		return err
	}
	if err := s.Eviction.Err(ctx); err != nil || s.commands.Load() != nil {
		return err
	}
	found, err := probe(ctx, s.Client, s.Keys.Probe())
	if err != nil {
		return err
	}
	s.commands.Store(found)
	return nil
}

// listNames reads the holds of names, for [keyspace.Lister].
func (s *store) listNames(ctx context.Context, names []string, yield func(driver.Entry, error) bool) bool {
	calls := make([]redisclient.Call, 0, 2*len(names))
	for _, name := range names {
		key := s.Keys.Hold(name)
		calls = append(calls, redisclient.Command("GET", key), redisclient.Command("PTTL", key))
	}
	out := make([]redisclient.Answer, len(calls))
	s.Client.DoMany(ctx, calls, out)
	for i, name := range names {
		value, left := out[2*i], out[2*i+1]
		switch {
		case redisclient.Code(value.Err) == "WRONGTYPE", value.Err == nil && value.Null:
			continue
		case value.Err != nil || left.Err != nil:
			yield(driver.Entry{}, redisclient.Wrap(cmp.Or(value.Err, left.Err)))
			return false
		}
		x, _ := keyspace.ParseHold(name, value.Text, time.Duration(left.Int)*time.Millisecond)
		if !yield(x, nil) {
			return false
		}
	}
	return true
}

// remove deletes a key that still has a value, or returns ErrGone.
func (s *store) remove(ctx context.Context, key, value string) error {
	r, err := s.Client.Do(ctx, s.commands.Load().remove(key, value))
	if err != nil {
		return redisclient.Wrap(err)
	}
	if r.Int <= 0 {
		return driver.ErrGone
	}
	return nil
}
