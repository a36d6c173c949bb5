package once_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
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
	manyEnv  = "PAWL_TEST_ORDERS"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(storeEnv); url != "" {
		orders, err := strconv.Atoi(os.Getenv(manyEnv))
		if err == nil {
			err = serveOrders(url, os.Getenv(logEnv), os.Getenv(holdEnv) != "", orders)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(recipetest.Main(m))
}

// serveOrders receives every order four times, from 16 clients at once. It writes
// to the log when the work of an order begins, and when a run has completed.
func serveOrders(url, log string, hold bool, orders int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute) // it does not outlive a test that was killed
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
	opts := []once.Option{once.WithRetry()}
	if hold {
		opts = append(opts, once.WithHold())
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

func TestNoKillMakesTwoRunsComeToTheirEndNorWithHoldTwoBegin(t *testing.T) {
	t.Parallel()
	eachKilled(t, 40, 4)
}

func TestSoakNoKillMakesTwoRunsComeToTheirEndNorWithHoldTwoBegin(t *testing.T) {
	d, err := time.ParseDuration(os.Getenv("PAWL_SOAK"))
	if err != nil {
		t.Skip("PAWL_SOAK is not set")
	}
	for end := time.Now().Add(d); time.Now().Before(end) && !t.Failed(); {
		t.Run("round", func(t *testing.T) { eachKilled(t, 500, 10) })
	}
}

func eachKilled(t *testing.T, orders, kills int) {
	for _, hold := range []bool{false, true} {
		t.Run(fmt.Sprint("hold ", hold), func(t *testing.T) {
			t.Parallel()
			recipetest.EachSharedWithRecords(t, func(t *testing.T, s *recipetest.Store) { killed(t, s.URL, hold, orders, kills) })
		})
	}
}

// killed has the process that serves the orders killed with -9 again and again, and
// started anew.
func killed(t *testing.T, url string, hold bool, orders, kills int) {
	s := service{t, url, t.TempDir() + "/log", hold, orders}
	for i := range kills {
		s.serve((i + 1) * orders / (kills + 1))
	}
	s.serve(0)
	begun, ended := s.tally("begin"), s.tally("end")
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
}

type service struct {
	t        *testing.T
	url, log string
	hold     bool
	orders   int
}

// serve runs the worker until the log has the given number of lines, and kills it then.
// With zero it runs until it exits.
func (s service) serve(lines int) {
	t := s.t
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), storeEnv+"="+s.url, logEnv+"="+s.log, manyEnv+"="+strconv.Itoa(s.orders))
	if s.hold {
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
		b, _ := os.ReadFile(s.log)
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

func (s service) tally(word string) map[int]int {
	s.t.Helper()
	b, err := os.ReadFile(s.log)
	if err != nil {
		s.t.Fatal(err)
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
