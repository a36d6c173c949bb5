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
	app   *app
	store store

	mu     sync.Mutex // guards the fields below, and is held while the client is opened
	client *pawl.Client
	tried  bool
}

// errNothingYet says that the local store does not exist: nothing was ever locked.
var errNothingYet = errors.New("there is no local store yet")

// List yields all claims, as Client.List.
func (s *servedStore) List(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		switch c, err := s.open(ctx); {
		case errors.Is(err, errNothingYet):
		case err != nil:
			yield(driver.Entry{}, err)
		default:
			c.List(ctx, prefix)(yield)
		}
	}
}

// Line returns the claims of one name, as Client.Line.
func (s *servedStore) Line(ctx context.Context, name string) ([]driver.Entry, error) {
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
	c, err := s.open(ctx)
	if err != nil {
		return err
	}
	change, err := s.app.openForWriting(ctx, c, s.store)
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

func (s *servedStore) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	closeClient(s.client)
}
