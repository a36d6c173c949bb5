package scriptless

import (
	"cmp"
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/keyspace"
	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// store is the part of an engine that its sessions share.
type store struct {
	Config
	probing  chan struct{}    // buffered by one: has room while the server is not being probed
	commands *compareCommands // nil until probed; belongs to the caller that probes
}

// ready returns the server's commands, or why nothing can be granted.
func (s *store) ready(ctx context.Context) (*compareCommands, error) {
	if err := cmp.Or(ctx.Err(), s.Refuse); err != nil {
		return nil, err
	}
	select {
	case s.probing <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.probing }()
	if err := s.Eviction.Err(ctx); err != nil {
		return nil, err
	}
	if s.commands != nil {
		return s.commands, nil
	}
	found, err := probe(ctx, s.Client, s.Keys.Probe())
	s.commands = found
	return found, err
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
		if !yield(keyspace.ParseHold(name, value.Text, time.Duration(left.Int)*time.Millisecond), nil) {
			return false
		}
	}
	return true
}

// remove deletes a key that still has a value, or returns ErrGone.
func (s *store) remove(ctx context.Context, commands *compareCommands, key, value string) error {
	r, err := s.Client.Do(ctx, commands.remove(key, value))
	if err != nil {
		return redisclient.Wrap(err)
	}
	if r.Int <= 0 {
		return driver.ErrGone
	}
	return nil
}
