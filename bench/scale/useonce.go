package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl"
	recipe "github.com/pawl-go/pawl/once"
)

// sweepLimit is for how many TTLs after the end the store is looked at.
const sweepLimit = 12

// swept is what counts as nothing: a store may keep a few keys of its own.
const swept = 100

// unsupported is the fault of a store that keeps no records.
const unsupported = "not supported"

// useOnce uses each name once, at the highest rate that one client reaches, and counts
// what is left in the store afterwards, while the client stays open.
func (p *performer) useOnce(ctx context.Context) (got step, err error) {
	c, err := p.open(ctx)
	if err != nil {
		return got, err
	}
	empty, err := p.count(ctx)
	if err != nil {
		return got, err
	}
	using, cancel := context.WithTimeout(ctx, max(p.Limit/takeShare, p.Limit-(sweepLimit+1)*p.TTL))
	defer cancel()
	begun := time.Now()
	done, err := concurrently(p.N, func(i int) error { return p.use(using, c, fmt.Sprintf("scale/once/%07d", i)) })
	took := time.Since(begun)
	got.Seconds, got.Pace = took.Seconds(), float64(done)/took.Seconds()
	if errors.Is(err, pawl.ErrUnsupported) {
		return step{}, fault(unsupported)
	}
	if err != nil && using.Err() == nil {
		return got, faultf("the %d. name: %v", done, err)
	}
	short := done < p.N
	end := time.Now()
	for seen := false; ; {
		n, err := p.count(ctx)
		if err != nil {
			return got, err
		}
		left, after := max(n-empty, 0), time.Since(end)
		if !seen && after >= p.TTL {
			seen, got.Left = true, left
		}
		if left <= swept && got.Swept == 0 {
			got.Swept = after.Seconds()
		}
		switch {
		case seen && got.Swept > 0 && short:
			return got, faultf("in %.0f s %d names were used", took.Seconds(), done)
		case seen && got.Swept > 0:
			return got, nil
		case after > sweepLimit*p.TTL || ctx.Err() != nil:
			return got, faultf("%d names were used, and %.0f s after the end %d were left", done, after.Seconds(), left)
		}
		rest(ctx, p.TTL/20)
	}
}

// use uses one name: locks and unlocks it, or does its work once.
func (p *performer) use(ctx context.Context, c *pawl.Client, name string) error {
	if p.Kind == records {
		_, err := recipe.Do(ctx, c, name, func(context.Context) (int, error) { return 1, nil }, recipe.WithKeep(p.TTL))
		return err
	}
	l, err := c.Mutex(name).Lock(ctx)
	if err != nil {
		return err
	}
	return l.Unlock()
}
