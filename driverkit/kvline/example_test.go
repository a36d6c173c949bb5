package kvline_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit/kvline"
)

// Example is a whole engine on a new store: the store's part is all that is written.
func Example() {
	client := pawl.New(kvline.New("memory", newMemory(), driver.Volatile))
	defer client.Close()
	lease, err := client.Mutex("jobs/42").Lock(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("held:", lease.Name())
	lease.Unlock()
	// Output: held: jobs/42
}

// memory is a store inside the process.
type memory struct {
	mu        sync.Mutex // guards what follows
	values    map[string]kvline.Value
	until     map[string]time.Time // when a value is deleted
	last      uint64
	listeners map[string][]chan string
}

func newMemory() *memory {
	return &memory{values: map[string]kvline.Value{}, until: map[string]time.Time{}, listeners: map[string][]chan string{}}
}

// expire deletes a value that was to be kept until now.
func (m *memory) expire(key string) {
	if until, ok := m.until[key]; ok && !until.After(time.Now()) {
		delete(m.values, key)
		delete(m.until, key)
	}
}

func (m *memory) Get(ctx context.Context, key string) (kvline.Value, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire(key)
	v := m.values[key]
	v.Data = slices.Clone(v.Data)
	return v, ctx.Err()
}

func (m *memory) Put(ctx context.Context, key string, v kvline.Value, keep time.Duration) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire(key)
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if m.values[key].Revision != v.Revision {
		return 0, kvline.ErrConflict
	}
	m.last++
	delete(m.until, key)
	if keep > 0 && v.Data != nil {
		m.until[key] = time.Now().Add(keep)
	}
	m.values[key] = kvline.Value{Data: slices.Clone(v.Data), Revision: m.last, Time: time.Now()}
	return m.last, nil
}

func (m *memory) Keys(ctx context.Context, prefix string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	keys := slices.Collect(maps.Keys(m.values))
	return slices.DeleteFunc(keys, func(key string) bool { return !strings.HasPrefix(key, prefix) }), ctx.Err()
}

func (m *memory) Now(ctx context.Context, _ time.Duration) (time.Time, error) {
	return time.Now(), ctx.Err()
}

func (m *memory) Notify(address, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.listeners[address] {
		l <- text
	}
}

func (m *memory) Listen(ctx context.Context, address string, up func(), message func(string)) error {
	l := make(chan string, 1000)
	m.mu.Lock()
	m.listeners[address] = append(m.listeners[address], l)
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.listeners[address] = slices.DeleteFunc(m.listeners[address], func(o chan string) bool { return o == l })
	}()
	up()
	for {
		select {
		case text := <-l:
			message(text)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (m *memory) Close() error { return nil }
