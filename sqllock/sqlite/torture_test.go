//go:build unix

package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/stalltest"
)

func init() {
	roles["worker"] = func(args []string) error { return work(args[0], args[1]) }
}

// tortureTTL is so long that nobody who waits for a dead holder to expire passes.
const tortureTTL = time.Minute

// work locks and unlocks until it is told to end. Exclusion is checked by an
// flock on a second file, which the kernel frees with the process; the last
// token stands in that file. Now and then it stops while it holds and says so,
// to be killed.
func work(path, second string) error {
	c, err := pawl.Open(context.Background(), "sqlite://"+path, pawl.WithTTL(tortureTTL))
	if err != nil {
		return err
	}
	defer c.Close()
	f, err := os.OpenFile(second, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends with the process
		bufio.NewReader(os.Stdin).ReadString('\n')
		cancel()
	}()
	for {
		lease, err := c.Mutex("torture").Lock(ctx)
		if ctx.Err() != nil {
			return nil
		} else if err != nil {
			return err
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			return fmt.Errorf("overlap: %w", err)
		}
		if err := checkToken(f, lease.Token()); err != nil {
			return err
		}
		fmt.Println("holds", lease.Token())
		if rand.IntN(30) == 0 {
			fmt.Println("kill")
			return idle()
		}
		time.Sleep(rand.N(3 * time.Millisecond))
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_UN); err != nil {
			return err
		}
		if err := lease.Unlock(); err != nil {
			return err
		}
	}
}

// checkToken compares a token with the last one and writes it down.
func checkToken(f *os.File, token uint64) error {
	buf := make([]byte, 32)
	n, _ := f.ReadAt(buf, 0)
	last, _ := strconv.ParseUint(strings.TrimSpace(string(buf[:n])), 10, 64)
	if token <= last {
		return fmt.Errorf("token %d after %d", token, last)
	}
	_, err := f.WriteAt([]byte(fmt.Sprintf("%-32d", token)), 0)
	return err
}

// A line of a worker, or its end.
type said struct {
	who  int
	line string
	at   time.Time
	end  error
	over bool
}

// TestEightProcessesWhoseHoldersAreKilled: no overlap, tokens grow, nobody waits
// for a dead holder, and the file stays sound.
func TestEightProcessesWhoseHoldersAreKilled(t *testing.T) {
	torture(t, 8, func(kills int) bool { return kills < 20 })
}

// TestSoakKilledHolders is the same for as long as PAWL_SOAK says.
func TestSoakKilledHolders(t *testing.T) {
	d, err := time.ParseDuration(os.Getenv("PAWL_SOAK"))
	if err != nil {
		t.Skip("set PAWL_SOAK to a duration, such as 10m")
	}
	end := time.Now().Add(d)
	torture(t, 8, func(int) bool { return time.Now().Before(end) })
}

func torture(t *testing.T, processes int, more func(kills int) bool) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	second := filepath.Join(t.TempDir(), "second")
	if err := os.WriteFile(second, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	words := make(chan said, 64)
	workers := map[int]*exec.Cmd{}
	born := 0
	spawn := func() {
		born++
		cmd, out := startWorker(t, path, second)
		workers[born] = cmd
		go listen(born, cmd, out, words) // ends with the process, which cleanup kills
	}
	for range processes {
		spawn()
	}
	var kills, holds int
	var killed time.Time // while nobody has held since
	var worst time.Duration
	var watch *stalltest.Watch // since killed
	excused := 0
	for more(kills) {
		select {
		case w := <-words:
			switch {
			case w.over && workers[w.who] != nil:
				t.Fatalf("worker %d ended: %v", w.who, w.end)
			case w.line == "kill":
				workers[w.who].Process.Kill()
				delete(workers, w.who)
				kills, killed = kills+1, time.Now()
				if watch != nil {
					watch.End()
				}
				watch = stalltest.Start()
				spawn()
			case strings.HasPrefix(w.line, "holds"):
				holds++
				if !killed.IsZero() {
					waited, lost := w.at.Sub(killed), watch.End()
					killed, watch = time.Time{}, nil
					if waited > time.Second && waited-lost <= time.Second {
						kills, excused = kills-1, excused+1 // the machine stood still: another is killed for this one
						continue
					}
					worst = max(worst, waited)
				}
			case strings.HasPrefix(w.line, "error"):
				t.Fatalf("worker %d: %s", w.who, w.line)
			}
		case <-time.After(40 * time.Second):
			t.Fatalf("no worker holds any more after %d kills", kills)
		}
	}
	t.Logf("%d holders killed in %d holds of %d processes; the next held after %v at most", kills, holds, processes, worst.Round(time.Millisecond))
	if watch != nil {
		watch.End()
	}
	if excused > kills {
		t.Errorf("the machine stood still in %d waits of %d", excused, kills+excused)
	}
	if worst > time.Second {
		t.Errorf("a claim waited %v for a dead holder", worst)
	}
	e := openFile(t, path)
	if got := e.text(t, "PRAGMA integrity_check"); got != "ok" {
		t.Error("integrity_check:", got)
	}
}

func startWorker(t *testing.T, path, second string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"=worker "+path+" "+second)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	return cmd, bufio.NewScanner(out)
}

func listen(who int, cmd *exec.Cmd, out *bufio.Scanner, words chan<- said) {
	for out.Scan() {
		words <- said{who: who, line: out.Text(), at: time.Now()}
	}
	words <- said{who: who, over: true, end: errors.Join(out.Err(), cmd.Wait())}
}
