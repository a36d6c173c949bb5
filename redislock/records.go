package redislock

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Load returns a record's value and version.
func (e *Engine) Load(ctx context.Context, key string) ([]byte, uint64, error) {
	if err := cmp.Or(ctx.Err(), e.bad); err != nil {
		return nil, 0, err
	}
	k := e.keys.record(key)
	r, err := e.c.Do(ctx, k, []string{"GET", k})
	if err != nil {
		return nil, 0, fault(err)
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

// Store writes a record if its version is still ifVersion. With [Wait] it returns
// when the replicas have it; where too few say so, the error leaves open which
// version stands, as it does when there was no answer.
func (e *Engine) Store(ctx context.Context, key string, value []byte, ifVersion uint64, keep time.Duration) (uint64, error) {
	if err := cmp.Or(ctx.Err(), e.bad); err != nil {
		return 0, err
	}
	if len(value) > driver.MaxRecord {
		return 0, driver.ErrTooLarge
	}
	args := []string{e.keys.record(key), e.keys.fence(key), strconv.FormatUint(ifVersion, 10), "0"}
	if keep > 0 {
		args[3] = strconv.FormatInt(wholeMillis(keep).Milliseconds(), 10)
	}
	if value != nil {
		args = append(args, string(value))
	}
	r, err := e.store(ctx, args)
	if err != nil {
		return 0, fault(err)
	}
	if len(r.Array) != 2 {
		return 0, errNoReply
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

func (e *Engine) store(ctx context.Context, args []string) (Reply, error) {
	if e.o.replicas == 0 {
		return e.run(ctx, storeScript, 2, args)
	}
	r, replicas, err := e.runAndWait(ctx, storeScript, args[0], storeScript.call(2, args), e.o.timeout)
	if err != nil && len(r.Array) > 0 { // of WAIT: the record is written
		return r, shortage{err}
	}
	if err == nil && replicas < e.o.replicas {
		err = shortage{fmt.Errorf("a record reached %d of %d replicas within %v", replicas, e.o.replicas, e.o.timeout)}
	}
	return r, err
}
