package adaptertest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/redislock"
)

// replyTimeout is less than WAIT may take. A grant that no replica confirms in that time is
// given back; one that is confirmed late is a grant.
const replyTimeout = time.Second

func longWait(t *testing.T, connect Adapter) {
	s := testserver.Redis(t)
	way := faultproxy.New(t, s.Addr())
	testserver.RedisReplica(t, way.Addr(), "--repl-timeout", "600")
	c := Config{Addrs: []string{s.Addr()}, ReadTimeout: replyTimeout}
	way.BlackHole(faultproxy.Both)
	unconfirmed(t, connect(t, c, redislock.WithWait(1, 2*replyTimeout)))
	time.AfterFunc(2*replyTimeout, way.Heal)
	confirmed(t, connect(t, c, redislock.WithWait(1, 20*replyTimeout)))
}

func longWaitInACluster(t *testing.T, connect Adapter) {
	s := testserver.RedisCluster(t)
	unconfirmed(t, connect(t, Config{Addrs: s.Addrs(), Cluster: true, ReadTimeout: replyTimeout}, redislock.WithWait(1, 2*replyTimeout)))
}

// confirmed takes a lock in one call.
func confirmed(t *testing.T, e *Connected) {
	if st, err := session(t, e, time.Minute).Enter(t.Context(), mutex("cc", "job")); err != nil || !st.Held {
		t.Errorf("Enter, which a replica confirms later than replies come: %+v, %v", st, err)
	}
}

// unconfirmed fails to take a lock that no replica confirms, and not for want of a reply.
func unconfirmed(t *testing.T, e *Connected) {
	one := session(t, e, time.Minute)
	st, err := one.Enter(t.Context(), mutex("bb", "job"))
	if st.Held || err == nil || errors.Is(err, driver.ErrUnreachable) || !strings.Contains(err.Error(), "0 of 1 replicas") {
		t.Errorf("Enter, which no replica confirms: %+v, %v", st, err)
	}
	if err := one.Leave(t.Context(), mutex("bb", "job")); err != nil && !errors.Is(err, driver.ErrGone) { // mostly it was given back
		t.Error(err)
	}
	line, err := e.Line(t.Context(), "job")
	if err != nil || len(line) > 0 {
		t.Errorf("the line has %d claims, %v", len(line), err)
	}
}
