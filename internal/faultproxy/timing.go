package faultproxy

import "time"

// timing is when the data of a pipe may be written.
type timing struct {
	since time.Time // arrival of the current item
	free  time.Time // when the throttle permits the next bytes
}

// waitUntilDue waits until delay and black hole let the current item pass. It
// returns false if the connection has ended.
func (p *pipe) waitUntilDue() bool {
	_, ok := p.wait(func(f faults) time.Time { return p.since.Add(f.delay) })
	return ok
}

// waitForBytes waits like waitUntilDue, and for the throttle. It returns how many
// of n bytes may be written now, and false if the connection has ended.
func (p *pipe) waitForBytes(n int) (int, bool) {
	f, ok := p.wait(func(f faults) time.Time {
		due := p.since.Add(f.delay)
		if f.rate > 0 && p.free.After(due) {
			return p.free
		}
		return due
	})
	if !ok || f.rate == 0 {
		return n, ok
	}
	n = min(n, max(f.rate/20, 1))
	p.free = time.Now().Add(time.Duration(n) * time.Second / time.Duration(f.rate))
	return n, true
}

// wait waits until there is no black hole and the time that due returns has come.
// It checks both again whenever a fault changes, and returns the faults at the end
// of the wait. It returns false if the connection has ended.
func (p *pipe) wait(due func(faults) time.Time) (faults, bool) {
	for {
		f, changed := p.conn.proxy.current(p.dir)
		var arrived <-chan time.Time
		if !f.black {
			left := time.Until(due(f))
			if left <= 0 {
				return f, p.conn.ctx.Err() == nil
			}
			arrived = time.After(left)
		}
		select {
		case <-arrived:
		case <-changed:
		case <-p.conn.ctx.Done():
			return f, false
		}
	}
}
