package faultproxy

import "time"

// A pacer is what a pipe knows about the time its bytes may go.
type timing struct {
	since time.Time // arrival of the item at hand
	free  time.Time // when the throttle lets the next bytes go
}

// pass waits until the delay and the black hole let the item at hand go; false:
// the link has ended.
func (p *pipe) waitUntilDue() bool {
	_, ok := p.wait(func(f faults) time.Time { return p.since.Add(f.delay) })
	return ok
}

// pace waits as pass does and for the throttle, and returns how many of n bytes
// may go now; false: the link has ended.
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

// wait returns when there is no black hole and the time that due gives has come,
// with the faults of that moment. Both are looked at again whenever a fault
// changes. False: the link has ended.
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
