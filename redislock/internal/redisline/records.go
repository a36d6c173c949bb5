package redisline

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// Load returns a record's value and version.
func (e *Engine) Load(ctx context.Context, key string) ([]byte, uint64, error) {
	if err := cmp.Or(ctx.Err(), e.Refuse); err != nil {
		return nil, 0, err
	}
	k := e.Keys.Record(key)
	r, err := e.Client.Do(ctx, redisclient.Command("GET", k))
	if err != nil {
		return nil, 0, redisclient.Wrap(err)
	}
	if r.Null {
		return nil, 0, nil
	}
	digits, value, ok := strings.Cut(r.Text, " ")
	version, err := strconv.ParseUint(digits, 10, 64)
	if !ok || err != nil {
		return nil, 0, fmt.Errorf("redislock: key %q holds something that is not a record", k)
	}
	return []byte(value), version, nil
}

// Store writes a record if its version is still ifVersion. An engine that waits for
// replicas returns when they have it; if too few confirm, the error leaves open which
// version stands, as it does when there was no answer.
func (e *Engine) Store(ctx context.Context, key string, value []byte, ifVersion uint64, keep time.Duration) (uint64, error) {
	if err := cmp.Or(ctx.Err(), e.Refuse); err != nil {
		return 0, err
	}
	if len(value) > driver.MaxRecord {
		return 0, driver.ErrTooLarge
	}
	expiry := "0"
	if keep > 0 {
		_, expiry = redisclient.Expiry(keep)
	}
	call := redisclient.Call{
		Script: recordScript,
		Keys:   []string{e.Keys.Record(key), e.Keys.Fence(key)},
		Args:   []string{strconv.FormatUint(ifVersion, 10), expiry},
	}
	if value != nil {
		call.Args = append(call.Args, string(value))
	}
	r, err := e.storeRecord(ctx, call)
	if err != nil {
		return 0, redisclient.Wrap(err)
	}
	if len(r.Array) != 2 {
		return 0, errBadReply
	}
	version, err := strconv.ParseUint(r.Array[1].Text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("redislock: version of record %q: %w", key, err)
	}
	if r.Array[0].Int == 0 {
		return version, driver.ErrConflict
	}
	return version, nil
}

func (s *store) storeRecord(ctx context.Context, call redisclient.Call) (redisclient.Reply, error) {
	if s.Replicas == 0 {
		return redisclient.Run(ctx, s.Client, call)
	}
	r, confirmed, err := redisclient.RunAndWait(ctx, s.Client, call, s.Replicas, s.ReplicaTimeout)
	if err != nil && len(r.Array) > 0 { // the error of WAIT: the record is written
		return r, redisclient.ReplicationError{Err: err}
	}
	if err == nil && confirmed < s.Replicas {
		err = redisclient.ReplicationError{Err: fmt.Errorf("a record reached %d of %d replicas within %v", confirmed, s.Replicas, s.ReplicaTimeout)}
	}
	return r, err
}
