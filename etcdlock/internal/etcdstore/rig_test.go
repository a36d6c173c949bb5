package etcdstore

import (
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// soon is how long a test waits for a step that should take no time.
const soon = 5 * time.Second

// dial returns a client for the length of a test.
func dial(t *testing.T, addr string) *clientv3.Client {
	t.Helper()
	config := NewConfig()
	config.Endpoints = []string{addr}
	client, err := clientv3.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// begin runs f beside the test, which waits for its end.
func begin[T any](t *testing.T, f func() T) <-chan T {
	result := make(chan T, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		result <- f()
	}()
	t.Cleanup(func() { <-done })
	return result
}

// within returns what begin's function returned, and fails the test if that takes longer.
func within[T any](t *testing.T, result <-chan T, d time.Duration, what string) T {
	t.Helper()
	select {
	case v := <-result:
		return v
	case <-time.After(d):
		t.Fatalf("%s: not within %v", what, d)
		panic("unreachable")
	}
}
