package zkstore

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

// Watch returns a watch in any session, or the error of the read that sets it.
func (c *Conn) Watch(ctx context.Context, key WatchKey) (*Watch, error) {
	return c.watch(ctx, nil, key)
}

// Watch returns a watch in this session, or the error of the read that sets it.
func (s *Session) Watch(ctx context.Context, key WatchKey) (*Watch, error) {
	return s.conn.watch(ctx, s, key)
}

// Notify has ch signalled when one of the watches fires, or at once if one has. The channel
// needs a buffer of 1. Stop takes it back.
func (s *Session) Notify(ch chan<- struct{}, watches []*Watch) (stop func()) {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	for _, w := range watches {
		if w.HasFired() {
			driverkit.Signal(ch)
			continue
		}
		if w.waiters == nil {
			w.waiters = map[chan<- struct{}]struct{}{}
		}
		w.waiters[ch] = struct{}{}
	}
	return func() {
		s.conn.mu.Lock()
		defer s.conn.mu.Unlock()
		for _, w := range watches {
			delete(w.waiters, ch)
		}
	}
}

// watch registers the watch before the read that sets it is sent: the event may arrive
// before the reply has been taken in. A read that another caller began, and that failed or
// whose watch has fired since, says nothing for this one: it begins its own.
func (c *Conn) watch(ctx context.Context, s *Session, key WatchKey) (*Watch, error) {
	for {
		c.mu.Lock()
		w, isNew := c.watches.get(key)
		c.mu.Unlock()
		if isNew {
			if err := c.establish(ctx, s, w); err != nil {
				c.established(w, err)
			}
		}
		select {
		case <-w.established:
		case <-ctx.Done():
			return nil, ContextError(ctx)
		}
		switch {
		case isNew:
			if w.err != nil {
				return nil, w.err
			}
			return w, nil
		case w.err == nil && !w.HasFired():
			return w, nil
		}
	}
}

// establish begins the read that sets the watch. It returns an error if it was not begun.
func (c *Conn) establish(ctx context.Context, s *Session, w *Watch) error {
	if err := c.ready(ctx, s); err != nil {
		return err
	}
	count := func(n int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.watches.count(w.Key, n)
	}
	read := func(lc *zk.Conn) (err error) {
		switch w.Key.Kind {
		case OnData:
			w.Data, w.Stat, _, err = lc.GetW(w.Key.Path)
		case OnChildren:
			_, w.Stat, _, err = lc.ChildrenW(w.Key.Path)
		case OnCreate:
			w.Exists, w.Stat, _, err = lc.ExistsW(w.Key.Path)
		}
		return err
	}
	count(1)
	begun := c.start(s, "", read, func(err error) {
		if err != nil {
			count(-1)
		}
		c.established(w, err)
	})
	if !begun {
		count(-1)
		return driver.ErrGone
	}
	return nil
}

// established notes the outcome of the read that sets a watch.
func (c *Conn) established(w *Watch, err error) {
	if err != nil {
		c.mu.Lock()
		c.watches.drop(w)
		c.mu.Unlock()
	}
	w.err = err
	close(w.established)
}
