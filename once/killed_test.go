package once_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/recipetest"
	"github.com/pawl-go/pawl/once"
)

// Only the test binary reads these; the first makes it a worker.
const (
	storeEnv = "PAWL_TEST_STORE"
	logEnv   = "PAWL_TEST_LOG"
	holdEnv  = "PAWL_TEST_HOLD"
)

const orders = 40

func TestMain(m *testing.M) {
	if url := os.Getenv(storeEnv); url != "" {
		if err := serveOrders(url, os.Getenv(logEnv), os.Getenv(holdEnv) != ""); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serveOrders receives every order four times, from 16 clients at once. It writes
// to the log when the work of an order begins, and when a run has come to its end.
func serveOrders(url, log string, hold bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // it does not outlive a test that was killed
	defer cancel()
	c, err := pawl.Open(ctx, url, pawl.WithTTL(2*time.Second))
	if err != nil {
		return err
	}
	defer c.Close()
	f, err := os.OpenFile(log, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	opts := []once.Option{once.Retry()}
	if hold {
		opts = append(opts, once.Hold())
	}
	queue := make(chan int)
	var all sync.WaitGroup
	failed := make(chan error, 16)
	for range cap(failed) {
		all.Go(func() {
			for n := range queue {
				ran := false
				_, err := once.Do(ctx, c, fmt.Sprint("order/", n), func(context.Context) (int, error) {
					ran = true
					fmt.Fprintf(f, "begin %d\n", n)
					time.Sleep(time.Millisecond) // the charge
					return n, nil
				}, opts...)
				switch {
				case err == nil && ran:
					fmt.Fprintf(f, "end %d\n", n)
				case err != nil && !(hold && errors.Is(err, once.ErrUnknownOutcome)):
					failed <- err
					return
				}
			}
		})
	}
	for i := range 4 * orders {
		select {
		case queue <- i % orders:
		case err := <-failed:
			return err
		}
	}
	close(queue)
	all.Wait()
	return nil
}

// The process that serves the orders is killed with -9 again and again, and started
// anew.
func TestNoKillMakesTwoRunsComeToTheirEndNorWithHoldTwoBegin(t *testing.T) {
	t.Parallel()
	for name, found := range map[string]func(testing.TB) string{"SQLite": recipetest.SQLite, "Redis": recipetest.Redis} {
		for _, hold := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " hold ", hold), func(t *testing.T) {
				t.Parallel()
				url, log := found(t), t.TempDir()+"/log"
				for kills := range 4 {
					serve(t, url, log, hold, (kills+1)*6)
				}
				serve(t, url, log, hold, 0)
				begun, ended := tally(t, log, "begin"), tally(t, log, "end")
				c := recipetest.On(url)(t)
				unknown := 0
				for n := range orders {
					rec, err := once.Find(t.Context(), c, fmt.Sprint("order/", n))
					switch {
					case err != nil:
						t.Fatal(err)
					case ended[n] > 1:
						t.Errorf("order %d: %d runs came to their end", n, ended[n])
					case hold && begun[n] > 1: // none is a run that died before its first step
						t.Errorf("order %d: began %d times with Hold", n, begun[n])
					case hold && rec.State == once.Unknown:
						unknown++
					case rec.State != once.Done:
						t.Errorf("order %d is %q after %d begins", n, rec.State, begun[n])
					}
				}
				t.Logf("%d orders, %d of unknown outcome", orders, unknown)
			})
		}
	}
}

// serve runs the worker, until the log has so many lines more than before: then it
// is killed. Zero lets it come to its end.
func serve(t *testing.T, url, log string, hold bool, lines int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), storeEnv+"="+url, logEnv+"="+log)
	if hold {
		cmd.Env = append(cmd.Env, holdEnv+"=1")
	}
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if lines == 0 {
		if err := cmd.Wait(); err != nil {
			t.Fatalf("the worker: %v", err)
		}
		return
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }() // ends with the process
	for {
		b, _ := os.ReadFile(log)
		if strings.Count(string(b), "\n") >= lines {
			_ = cmd.Process.Kill()
			<-done
			return
		}
		select {
		case <-done:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

func tally(t *testing.T, log, word string) map[int]int {
	t.Helper()
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	count := map[int]int{}
	for line := range strings.Lines(string(b)) {
		n := 0
		if _, err := fmt.Sscanf(line, word+" %d\n", &n); err == nil {
			count[n]++
		}
	}
	return count
}
