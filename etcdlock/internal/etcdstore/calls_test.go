package etcdstore

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
)

// A cluster that is slow carries out also what nobody waits for any more: repeating it at the
// same pace keeps it slow.
func TestCallsWithoutAnAnswerAreGivenMoreTime(t *testing.T) {
	t.Parallel()
	p := faultproxy.New(t, testserver.Etcd(t).Addr())
	s := New(dial(t, p.Addr()), "anchor")
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	l, err := s.OpenLease(t.Context(), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	read := func() error {
		_, err := l.Do(t.Context(), clientv3.OpGet("key"))
		return err
	}
	expect := func(what string, want time.Duration) {
		t.Helper()
		if got := l.limit(); got != want {
			t.Errorf("%s: a call waits %v for an answer, not %v", what, got, want)
		}
	}
	expect("at first", 2*time.Second)
	p.BlackHole(faultproxy.Both)
	if read() == nil {
		t.Fatal("a silent server has answered")
	}
	expect("after one that had none", 4*time.Second)
	if got := s.limit(); got != MaxCallTimeout {
		t.Errorf("a call of no lease waits %v", got)
	}
	if read() == nil {
		t.Fatal("a silent server has answered")
	}
	expect("after two", MaxCallTimeout)
	p.Heal()
	for begun := time.Now(); l.limit() > 2*time.Second; _ = read() { // until one is answered in less
		if time.Since(begun) > time.Minute {
			t.Fatal("the answers of a minute have not counted")
		}
	}
}
