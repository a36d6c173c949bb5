package sqllock_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
)

// roleEnv names the part that a copy of the test binary plays in place of the
// tests: driver, DSN, store, name and key, one a line.
const roleEnv = "PAWL_SQLLOCK_ROLE"

// stoppedTTL is the TTL of a holder that is stopped.
const stoppedTTL = 300 * time.Millisecond

// play holds a lock, says so, and makes a guarded entry when it is told to go on,
// as a program does in the middle of its work.
func play(role string) int {
	part := strings.Split(role, "\n")
	ctx := context.Background()
	c, err := pawl.Open(ctx, part[2], pawl.WithTTL(stoppedTTL))
	if err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	db, err := sql.Open(part[0], part[1])
	if err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	r := &rig{db: db, mark: marks[part[0]]}
	l, err := c.Mutex(part[3]).Lock(ctx)
	if err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	fmt.Println("held")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // an end tells it as well
	if ok, err := r.write(ctx, part[4], l, sql.LevelDefault); ok && err == nil {
		fmt.Println("committed")
	} else {
		fmt.Println("refused:", err)
	}
	return 0
}

// A holder is stopped for longer than its TTL, somebody else takes over and
// writes, and the first one goes on.
func TestAHolderThatWasStoppedCannotCommit(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		name, key := nameOf(t), r.ledger(t)
		rival := openClient(t, r.url)
		for range 2 {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), roleEnv+"="+strings.Join([]string{r.driver, r.dsn, r.url, name, key}, "\n"))
			cmd.Stderr = os.Stderr
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewReader(out)
			if said, _ := lines.ReadString('\n'); said != "held\n" {
				t.Fatalf("the holder said %q", said)
			}
			if err := pause(cmd.Process); err != nil {
				t.Skip(err)
			}
			l, err := rival.Mutex(name).Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if ok, err := r.write(t.Context(), key, l, sql.LevelDefault); !ok || err != nil {
				t.Fatalf("the successor's entry: %v, %v", ok, err)
			}
			if err := resume(cmd.Process); err != nil {
				t.Fatal(err)
			}
			_ = in.Close()
			if said, _ := lines.ReadString('\n'); !strings.HasPrefix(said, "refused: ") {
				t.Errorf("the stopped holder said %q", said)
			}
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
			if err := l.Unlock(); err != nil {
				t.Error(err)
			}
		}
		if stale := r.number(t, "SELECT stale FROM ledger WHERE name = ?", key); stale != 0 {
			t.Errorf("%d stale commits", stale)
		}
	})
}
