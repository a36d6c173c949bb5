package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"sync"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// A servedStore is the store of serve. It is opened by the first call that reaches
// it, so that serve can start while the store is away.
type servedStore struct {
	app     *app
	denials chan struct{} // has an element if the store refused the password; the capacity is one

	calls sync.RWMutex // held for reading by calls of the client, so that none is closed under them

	mu     sync.Mutex // guards the fields below, and is held while the client is opened
	store  store
	client *pawl.Client
	tried  bool
}

// errNothingYet says that the local store does not exist: nothing was ever locked.
var errNothingYet = errors.New("there is no local store yet")

// List yields all claims, as Client.List.
func (s *servedStore) List(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		s.calls.RLock()
		defer s.calls.RUnlock()
		c, err := s.open(ctx)
		if errors.Is(err, errNothingYet) {
			return
		}
		if err != nil {
			s.tell(err)
			yield(driver.Entry{}, err)
			return
		}
		for e, err := range c.List(ctx, prefix) {
			s.tell(err)
			if !yield(e, err) {
				return
			}
		}
	}
}

// tell says that the store refused the password, if that is the error.
func (s *servedStore) tell(err error) {
	if !errors.Is(err, pawl.ErrDenied) {
		return
	}
	select {
	case s.denials <- struct{}{}:
	default:
	}
}

// Line returns the claims of one name, as Client.Line.
func (s *servedStore) Line(ctx context.Context, name string) ([]driver.Entry, error) {
	s.calls.RLock()
	defer s.calls.RUnlock()
	c, err := s.open(ctx)
	if errors.Is(err, errNothingYet) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return c.Line(ctx, name)
}

// evict breaks a claim, as force-unlock does.
func (s *servedStore) evict(ctx context.Context, e driver.Entry) error {
	s.calls.RLock()
	defer s.calls.RUnlock()
	c, err := s.open(ctx)
	if err != nil {
		return err
	}
	change, err := s.app.openForWriting(ctx, c, s.chosen())
	if err != nil {
		return err
	}
	if change != c {
		defer closeClient(change)
	}
	return change.Evict(ctx, e)
}

// open returns the client, and opens it if that has not worked yet.
func (s *servedStore) open(ctx context.Context) (*pawl.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		return s.client, nil
	}
	if s.store.local != "" {
		if _, err := os.Stat(s.store.local); errors.Is(err, fs.ErrNotExist) {
			return nil, errNothingYet
		}
	}
	a := *s.app
	if s.tried {
		a.err = io.Discard // what there is to warn of was said the first time
	}
	s.tried = true
	c, _, err := a.openReadOnly(ctx, true)
	if err != nil {
		return nil, err
	}
	s.client = c
	return c, nil
}

// chosen returns the store as it was last read.
func (s *servedStore) chosen() store {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store
}

// follow reads the store's URL again at each reload and each denial, until ended is closed.
func (s *servedStore) follow(reload <-chan os.Signal, ended <-chan struct{}) {
	for {
		select {
		case <-reload:
		case <-s.denials:
		case <-ended:
			return
		}
		s.reload()
	}
}

// reload reads the store's URL again. If it has another password now, the next call opens
// another client. What was seen belongs to one store, so another store is refused.
func (s *servedStore) reload() {
	now, err := s.app.findStore()
	before := s.chosen()
	switch {
	case err != nil:
		s.app.say("warning: the store's URL cannot be read again: %s", explainForPage(err))
		return
	case now.url == before.url:
		return
	case now.shown != before.shown:
		s.app.say("warning: %s names another store now; start serve again to show it", now.from)
		return
	}
	s.calls.Lock() // when the calls of the client have ended
	defer s.calls.Unlock()
	s.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store, s.client = now, nil
	s.app.say("the store's URL was read again")
}

func (s *servedStore) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	closeClient(s.client)
}
