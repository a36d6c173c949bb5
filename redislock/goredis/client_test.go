package goredis_test

import (
	"errors"
	"testing"
	"time"

	redis "github.com/redis/go-redis/v9"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/goredis"
)

func TestServersThatDoNotKnowEachOtherAreRefused(t *testing.T) {
	t.Parallel()
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": "127.0.0.1:1"}})
	defer ring.Close()
	e := goredis.New(ring)
	defer e.Close()
	_, err := e.Open(t.Context(), driver.SessionOptions{ID: "a session", TTL: time.Minute})
	if !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("Open on a ring: %v, not ErrUnsupported", err)
	}
}
