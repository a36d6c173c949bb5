package rueidis

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
)

// A server that is slow to accept connections must not get more and more of them, which
// would make it slower.
func TestASlowServerIsNotFloodedWithConnections(t *testing.T) {
	t.Parallel()
	way := faultproxy.New(t, testserver.Redis(t).Addr())
	own, err := redis.NewClient(redis.ClientOption{InitAddress: []string{way.Addr()}, DisableCache: true, DisableRetry: true})
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(own, true)
	defer c.Close()
	way.Delay(faultproxy.Both, 100*time.Millisecond)
	before := way.Connections()
	const calls = 10
	for range calls {
		ctx, cancel := context.WithTimeout(t.Context(), 160*time.Millisecond)
		if d, err := c.dedicated.live(ctx); err == nil {
			d.release()
		}
		cancel()
	}
	way.Heal()
	made := way.Connections() - before
	t.Logf("%d calls made %d connections", calls, made)
	if made > 3*calls {
		t.Errorf("%d calls made %d connections", calls, made)
	}
}

// A caller that waits for another caller's connection attempt must not fail with it: its
// call was not sent, so it connects itself.
func TestACallerThatGivesUpConnectingDoesNotFailTheOthers(t *testing.T) {
	t.Parallel()
	for _, how := range []error{context.Canceled, context.DeadlineExceeded} {
		t.Run(how.Error(), func(t *testing.T) {
			t.Parallel()
			givesUpConnecting(t, how)
		})
	}
}

func givesUpConnecting(t *testing.T, how error) {
	way := faultproxy.New(t, testserver.Redis(t).Addr())
	var slow atomic.Bool // the next connection attempt
	connects, goOn := make(chan struct{}), make(chan struct{})
	own, err := redis.NewClient(redis.ClientOption{InitAddress: []string{way.Addr()}, PipelineMultiplex: -1, DisableCache: true, DisableRetry: true,
		DialCtxFn: func(_ context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			conn, err := d.Dial("tcp", addr)
			if slow.CompareAndSwap(true, false) {
				close(connects)
				<-goOn
			}
			return conn, err
		}})
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(own, true)
	c.pipelines = nil // their connections would serve as well
	defer c.Close()
	ask := func(ctx context.Context) error { _, err := c.Do(ctx, ping); return err }
	slow.Store(true)
	way.Reset()
	gives, giveUp := context.WithCancel(t.Context())
	if how == context.DeadlineExceeded {
		gives, giveUp = context.WithTimeout(t.Context(), 2*time.Second)
	}
	defer giveUp()
	first, others := make(chan error, 1), make(chan error, 10)
	go func() {
		err := ask(gives)
		for gives.Err() == nil { // it used the connection that was reset
			err = ask(gives)
		}
		first <- err
	}()
	<-connects
	for range cap(others) {
		go func() { others <- ask(t.Context()) }()
	}
	time.Sleep(50 * time.Millisecond) // their waiting cannot be observed; a later one connects itself
	if how == context.Canceled {
		giveUp()
	}
	<-gives.Done()
	close(goOn)
	if err := <-first; !errors.Is(err, how) {
		t.Errorf("the caller that gave up: %v", err)
	}
	for range cap(others) {
		if err := <-others; err != nil {
			t.Errorf("a caller that waited for the same connection: %v", err)
		}
	}
}
