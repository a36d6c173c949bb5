package driverkit_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// A kvStore is the store of the example engine: values that are written if their version
// is still the one that was read, a watch on a key that sends the present value first,
// and a clock. Versions count all writes of the store. A store without a clock that
// clients can read, such as Consul, cannot have expiries in its values: there claims live
// as long as a session of the store's own, as in etcdlock.
type kvStore struct {
	mu      sync.Mutex // guards what follows
	values  map[string]kvValue
	last    uint64
	watches map[string][]chan string
}

type kvValue struct {
	text    string
	version uint64
}

func newKVStore() *kvStore {
	return &kvStore{values: map[string]kvValue{}, watches: map[string][]chan string{}}
}

func (s *kvStore) now() time.Time { return time.Now() }

func (s *kvStore) get(ctx context.Context, key string) (text string, version uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values[key].text, s.values[key].version, ctx.Err()
}

// swap writes a value if its version is still ifVersion, 0 for none, and returns the new
// version, or 0 if it was another. An empty text deletes.
func (s *kvStore) swap(ctx context.Context, key, text string, ifVersion uint64) (version uint64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.values[key].version != ifVersion {
		return 0, nil
	}
	s.last++
	s.values[key] = kvValue{text, s.last}
	if text == "" {
		delete(s.values, key)
	}
	for _, watch := range s.watches[key] {
		watch <- text
	}
	return s.last, nil
}

func (s *kvStore) watch(ctx context.Context, key string, up func(), changed func(text string)) error {
	watch := make(chan string, 1000)
	s.mu.Lock()
	watch <- s.values[key].text
	s.watches[key] = append(s.watches[key], watch)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.watches[key] = slices.DeleteFunc(s.watches[key], func(o chan string) bool { return o == watch })
	}()
	up()
	for {
		select {
		case text := <-watch:
			changed(text)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *kvStore) keys(_ context.Context, prefix string) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for key := range s.values {
		if strings.HasPrefix(key, prefix) {
			all = append(all, key)
		}
	}
	slices.Sort(all)
	return all, nil
}
