package main

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-go/pawl"
)

// hold takes the names from one client and keeps them for two TTLs.
func (p *performer) hold(ctx context.Context) (got step, err error) {
	c, err := p.open(ctx)
	if err != nil {
		return got, err
	}
	leases := make([]*pawl.Lease, p.N)
	got.Seconds, err = p.take(ctx, c, leases, "scale/held")
	if err != nil {
		return got, err
	}
	for end := time.Now().Add(2 * p.TTL); time.Now().Before(end); rest(ctx, p.TTL/50) {
		if n := c.Stats().Lost; n > 0 {
			return got, faultf("%d leases were lost%s", n, why(leases))
		}
		if ctx.Err() != nil {
			return got, faultf("the time was over before two TTLs had passed")
		}
	}
	for _, l := range leases {
		if err := l.Err(); err != nil {
			return got, faultf("a lease was lost: %v", err)
		}
	}
	return got, nil
}

// take locks a name for each of leases, and returns how many seconds it took.
func (p *performer) take(ctx context.Context, c *pawl.Client, leases []*pawl.Lease, prefix string) (seconds float64, err error) {
	taking, cancel := context.WithTimeout(ctx, p.Take)
	defer cancel()
	begun := time.Now()
	n, err := concurrently(len(leases), func(i int) (err error) {
		leases[i], err = c.Mutex(fmt.Sprintf("%s/%06d", prefix, i)).Lock(taking)
		return err
	})
	seconds = time.Since(begun).Seconds()
	switch {
	case err != nil && taking.Err() != nil:
		return seconds, faultf("after %.0f s only %d were held", seconds, n)
	case err != nil:
		return seconds, faultf("a free name was not granted: %v", err)
	case c.Stats().Lost > 0:
		return seconds, faultf("%d leases were lost while others were taken%s", c.Stats().Lost, why(leases))
	}
	return seconds, nil
}

// why says why one of the leases was lost.
func why(leases []*pawl.Lease) string {
	for _, l := range leases {
		if l != nil && l.Err() != nil {
			return ", one because of: " + l.Err().Error()
		}
	}
	return ""
}
