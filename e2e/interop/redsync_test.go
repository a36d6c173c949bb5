package interop

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	pool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	redis "github.com/redis/go-redis/v9"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/goredis"
)

// before and after have the lines that docs/coming-from.md shows, and nothing else but the
// work.

func before(ctx context.Context, rdb *redis.Client, work func()) error {
	rs := redsync.New(pool.NewPool(rdb)) // before
	mutex := rs.NewMutex("job", redsync.WithExpiry(8*time.Second))
	if err := mutex.LockContext(ctx); err != nil {
		return err
	}
	defer mutex.UnlockContext(ctx)
	work()
	return nil
}

func after(ctx context.Context, rdb *redis.Client, work func()) error {
	c := pawl.New(goredis.New(rdb, redislock.WithPrefix(""))) // after
	lease, err := c.Mutex("job", pawl.WithTTL(8*time.Second)).Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Unlock()
	work()
	return nil
}

func TestTheDocumentedMoveFromRedsyncKeepsOneHolder(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	sides := map[string]func(context.Context, *redis.Client, func()) error{"redsync": before, "pawl": after}
	for first, hold := range sides {
		for second, rival := range sides {
			err := hold(t.Context(), dial(t, server.Addr()), func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := rival(ctx, dial(t, server.Addr()), func() { t.Errorf("%s holds beside %s", second, first) }); err == nil {
					t.Errorf("%s beside %s: no error", second, first)
				}
			})
			if err != nil {
				t.Fatalf("%s: %v", first, err)
			}
			done := errors.New("not run")
			if err := rival(t.Context(), dial(t, server.Addr()), func() { done = nil }); err != nil || done != nil {
				t.Errorf("%s after %s: %v, %v", second, first, err, done)
			}
		}
	}
}

func TestTheDocumentedMoveFromRedsyncIsTheOneThatIsTested(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/coming-from.md")
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile("redsync_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 2 {
		t.Fatalf("the page has %d blocks of Go", len(blocks))
	}
	for _, block := range blocks {
		lines := "\t" + strings.ReplaceAll(strings.TrimSuffix(block[1], "\n"), "\n", "\n\t") + "\n\twork()\n"
		if !strings.Contains(string(own), lines) {
			t.Errorf("not tested:\n%s", block[1])
		}
	}
}
