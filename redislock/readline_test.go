package redislock_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	goredisclient "github.com/redis/go-redis/v9"
	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/goredis"
	"github.com/pawl-go/pawl/redislock/rueidis"
)

// otherKeys is the number of keys of another program.
const otherKeys = 20_000

// Line shows what List would, also holds of other clients, and nothing for a key that is
// not a lock.
func TestALineIsReadInOneStepHoweverManyOtherKeysThereAre(t *testing.T) {
	t.Parallel()
	for about, start := range map[string]func(t *testing.T) (driver.Engine, []string){
		"one server": func(t *testing.T) (driver.Engine, []string) {
			s := testserver.Redis(t)
			return rueidis.New(connectTo(t, redis.ClientOption{InitAddress: []string{s.Addr()}, ForceSingleClient: true})), []string{s.Addr()}
		},
		"go-redis": func(t *testing.T) (driver.Engine, []string) {
			s := testserver.Redis(t)
			c := goredisclient.NewClient(&goredisclient.Options{Addr: s.Addr()})
			t.Cleanup(func() { _ = c.Close() })
			return goredis.New(c), []string{s.Addr()}
		},
		"without scripts": func(t *testing.T) (driver.Engine, []string) {
			s := testserver.Valkey(t)
			return rueidis.New(connectTo(t, redis.ClientOption{InitAddress: []string{s.Addr()}, ForceSingleClient: true}), redislock.WithoutScripts()), []string{s.Addr()}
		},
		"cluster": func(t *testing.T) (driver.Engine, []string) {
			s := testserver.RedisCluster(t)
			return rueidis.New(connectTo(t, redis.ClientOption{InitAddress: s.Addrs()})), s.Addrs()
		},
	} {
		t.Run(about, func(t *testing.T) {
			t.Parallel()
			e, addrs := start(t)
			t.Cleanup(func() { _ = e.Close() })
			readsLines(t, e, addrs)
		})
	}
}

func connectTo(t *testing.T, o redis.ClientOption) redis.Client {
	t.Helper()
	o.DisableCache = true
	c, err := redis.NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func readsLines(t *testing.T, e driver.Engine, addrs []string) {
	var nodes []*console
	for _, addr := range addrs {
		nodes = append(nodes, newConsole(t, addr))
	}
	anywhere := func(words ...string) {
		for _, at := range nodes {
			_, _ = at.try(words...) // the node that serves the key accepts it
		}
	}
	// In the slot of one of the names.
	anywhere("EVAL", fmt.Sprintf("for i = 1, %d do redis.call('SET', '{' .. KEYS[1] .. '}' .. i, 'x') end", otherKeys), "1", "pawl:foreign")
	anywhere("SET", "pawl:foreign", "theirs", "PX", "60000")
	anywhere("RPUSH", "pawl:list", "a")
	s, err := e.Open(t.Context(), driver.SessionOptions{ID: "one", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	queue := e.Features().Queue
	for i := range 3 {
		c := exclusive(i+1, "held")
		if c.Queue = queue; !queue && i > 0 {
			break
		}
		if _, err := s.Enter(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	anywhere("CONFIG", "RESETSTAT")
	for name, want := range map[string]int{"held": map[bool]int{true: 3, false: 1}[queue], "foreign": 1, "list": 0, "nobody": 0} {
		line, err := e.Line(t.Context(), name)
		if err != nil || len(line) != want {
			t.Errorf("%s: %d claims, not %d: %v", name, len(line), want, err)
		}
		if name == "foreign" && len(line) == 1 && (!line[0].Foreign || !line[0].Held || line[0].Note != "theirs") {
			t.Errorf("foreign: %+v", line[0])
		}
		if name == "held" && len(line) > 0 && (!line[0].Held || line[0].ID != exclusive(1, "held").ID) {
			t.Errorf("held: %+v", line[0])
		}
	}
	all := ""
	for _, at := range nodes {
		all += at.do("INFO", "commandstats")
	}
	for _, m := range regexp.MustCompile(`cmdstat_(\w+):calls=(\d+)`).FindAllStringSubmatch(all, -1) {
		if strings.Contains(m[1], "scan") || m[1] == "keys" {
			t.Errorf("%s was called %s times", m[1], m[2])
		}
	}
}
