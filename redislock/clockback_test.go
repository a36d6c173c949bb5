package redislock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/testserver"
)

// plantDead puts claims that have expired into the line of a name, so that the next script
// on it takes long: it drops them.
const plantDead = `
local side, now = KEYS[1], redis.call('TIME')
for i = 1, tonumber(ARGV[1]) do
  local id = string.format('%032x', i)
  redis.call('HSET', side, id, '0 1 1 ' .. i .. ' 1 1 1000 1 - c\2')
  redis.call('ZADD', side .. '\1w', i, id)
  redis.call('ZADD', side .. '\1l', 1, id)
end
redis.call('HSET', side, '#used', '0', '#count', '0', '#limit', '')`

// The clock is set back by more than a TTL while a script is under way. Redis 7.0 then has
// two clocks in that script, and the hold must outlive both.
func TestTheClockIsSetBackWhileAScriptRuns(t *testing.T) {
	t.Parallel()
	const ttl = 30 * time.Second // the scripts of this test are long
	clock := testserver.NewClock(t)
	s := testserver.RedisOn(t, clock)
	at := newConsole(t, s.Addr())
	holder, rival := open(t, "redis://"+s.Addr(), pawl.WithTTL(ttl)), open(t, "redis://"+s.Addr(), pawl.WithTTL(ttl))
	l := lock(t, holder.Mutex("name"))
	for tries := 0; ; tries++ {
		if tries == 50 {
			t.Fatal("the clock was never set back during a script")
		}
		at.do("EVAL", plantDead, "1", "pawl:\x01hname", "10000")
		tried := make(chan error, 1)
		go func() { // waited for below
			_, err := rival.Mutex("name").TryLock(t.Context())
			tried <- err
		}()
		time.Sleep(10 * time.Millisecond) // the script takes about 100
		early := len(tried) == 0
		clock.Step(-2 * ttl)
		after := time.Now()
		if err := <-tried; !errors.Is(err, pawl.ErrHeld) {
			t.Fatalf("TryLock beside a holder: %v", err)
		}
		if at.do("EXISTS", "pawl:name") != "1" {
			t.Fatal("the hold is gone")
		}
		if early && time.Since(after) > 10*time.Millisecond {
			break
		}
	}
	if err := l.Confirm(t.Context()); err != nil {
		t.Errorf("the holder: %v", err)
	}
	unlock(t, l)
}
