package multi_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/recipetest"
	"github.com/pawl-go/pawl/multi"
)

const storeEnv = "PAWL_TEST_STORE" // makes the test binary a process that takes pairs

func TestMain(m *testing.M) {
	if url := os.Getenv(storeEnv); url != "" {
		if err := takePairs(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(recipetest.Main(m))
}

// takePairs takes random pairs of names, in random order, until its input ends. It
// writes a line for each.
func takePairs(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // it does not outlive a test that was killed
	defer cancel()
	c, err := pawl.Open(ctx, url, pawl.WithTTL(time.Second))
	if err != nil {
		return err
	}
	defer c.Close()
	over := make(chan struct{})
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(over)
	}()
	for {
		select {
		case <-over:
			return nil
		default:
		}
		lease, err := multi.Lock(ctx, c, fmt.Sprint("n", rand.IntN(6)), fmt.Sprint("n", rand.IntN(6)))
		if err != nil {
			return err
		}
		fmt.Println(lease.Names())
		if err := lease.Unlock(); err != nil {
			return err
		}
	}
}

func TestNothingStaysHeldAfterHalfOfTheProcessesWereKilled(t *testing.T) {
	t.Parallel()
	recipetest.EachSite(t, func(t *testing.T, s *recipetest.Site) {
		var lives []*process
		for i := range 4 {
			p := start(t, s.URL)
			p.take(t, 3)
			if i%2 == 1 {
				lives = append(lives, p)
				continue
			}
			_ = p.cmd.Process.Kill() // in the middle of whatever it does
			_ = p.cmd.Wait()
		}
		for _, p := range lives { // the dead are not waited for for ever
			p.take(t, 10)
			p.end(t)
		}
		expectNothingHeld(t, recipetest.On(s.URL)(t))
	})
}

type process struct {
	cmd   *exec.Cmd
	in    io.Closer
	lines chan struct{}
}

func start(t *testing.T, url string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), storeEnv+"="+url)
	cmd.Stderr = t.Output()
	p := &process{cmd: cmd, lines: make(chan struct{}, 1)}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in, cmd.Stdout = in, p
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return p
}

// Write hears that the process took a pair.
func (p *process) Write(b []byte) (int, error) {
	select {
	case p.lines <- struct{}{}:
	default:
	}
	return len(b), nil
}

func (p *process) take(t *testing.T, n int) {
	t.Helper()
	for range n {
		select {
		case <-p.lines:
		case <-time.After(20 * time.Second):
			t.Fatal("a process takes nothing")
		}
	}
}

func (p *process) end(t *testing.T) {
	t.Helper()
	_ = p.in.Close()
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("a process that was not killed: %v", err)
	}
}
