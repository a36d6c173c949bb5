package faultdial

import (
	"context"
	"net"
	"time"
)

// Dial makes a connection that has the faults of the Link. It is a driver.Dialer.
func (l *Link) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	for held := false; ; {
		if err := l.wait(ctx, &held); err != nil {
			return nil, &net.OpError{Op: "dial", Net: network, Err: err}
		}
		raw, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if c := l.admit(raw); c != nil {
			return c, nil
		}
		closeHard(raw) // a cut began meanwhile: the connection would not have been made
	}
}

// wait waits until a new connection can be made. held is set, and counted, if it cannot be
// made at once.
func (l *Link) wait(ctx context.Context, held *bool) error {
	for start := time.Now(); ; {
		l.mu.Lock()
		f, changed := l.faults, l.changed
		l.mu.Unlock()
		var arrived <-chan time.Time
		if f.cut == 0 {
			left := time.Until(start.Add(2 * f.delay))
			if left <= 0 {
				return nil
			}
			arrived = time.After(left)
		}
		if !*held {
			*held = true
			l.held.Add(1)
		}
		select {
		case <-arrived:
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// admit returns the connection on raw, or nil while the Link is cut.
func (l *Link) admit(raw net.Conn) *conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.faults.cut != 0 {
		return nil
	}
	c := newConn(l, raw)
	l.conns[c] = true
	l.dialled.Add(1)
	if l.faults != (faults{}) {
		c.apply(l.faults)
	}
	return c
}

// closeHard closes a connection with an RST, if it is TCP.
func closeHard(raw net.Conn) {
	if tcp, ok := raw.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // fails only on a connection that has ended
	}
	_ = raw.Close() // the same
}
