package engines_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/recipetest"
)

// Read by the test binary only; the first one makes it a process that takes names.
const (
	storeEnv   = "PAWL_TEST_STORE"
	logEnv     = "PAWL_TEST_LOG"
	callersEnv = "PAWL_TEST_CALLERS"
)

// names is so small that most sets of two or three names overlap.
const names = 12

// takeMany makes callers take random sets of names, in random order, until its
// input ends. It logs when a hold begins, when it is about to end, and when it was
// lost, which a machine that stalls may cause.
func takeMany(url string) error {
	callers, err := strconv.Atoi(os.Getenv(callersEnv))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c, err := pawl.Open(ctx, url, pawl.WithTTL(3*time.Second))
	if err != nil {
		return err
	}
	defer c.Close()
	f, err := os.OpenFile(os.Getenv(logEnv), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	over := make(chan struct{})
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(over)
		time.AfterFunc(10*time.Minute, cancel) // so that it does not outlive a test that was killed
	}()
	var all sync.WaitGroup
	failed := make(chan error, callers)
	for range callers {
		all.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				if err := takeSome(ctx, c, f); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(failed)
	return <-failed
}

func takeSome(ctx context.Context, c *pawl.Client, log io.Writer) error {
	var wanted []string
	for _, n := range rand.Perm(names)[:2+rand.IntN(2)] {
		wanted = append(wanted, fmt.Sprint("n", n))
	}
	lease, err := c.LockAll(ctx, wanted)
	if errors.Is(err, pawl.ErrLost) {
		return nil
	}
	if err != nil {
		return err
	}
	note := func(word string) {
		for _, name := range lease.Names() {
			fmt.Fprintf(log, "%s %s %d %d\n", word, name, lease.Part(name).Token(), os.Getpid())
		}
	}
	note("begin")
	fmt.Println("held")
	note("end")
	err = lease.Unlock()
	if errors.Is(err, pawl.ErrLost) || errors.Is(err, pawl.ErrUnknown) {
		note("lost")
		err = nil
	}
	return err
}

func TestNothingStaysHeldAfterHalfOfTheProcessesWereKilled(t *testing.T) { // not beside other tests: it computes
	recipetest.EachShared(t, func(t *testing.T, s *recipetest.Store) { killHalf(t, s, 4, 5, 0) })
}

func TestSoakNothingStaysHeldAfterHalfOfTheProcessesWereKilled(t *testing.T) {
	d, err := time.ParseDuration(os.Getenv("PAWL_SOAK"))
	if err != nil {
		t.Skip("PAWL_SOAK is not set")
	}
	// One store at a time: on two processors, the processes of all stores together,
	// built with -race, show how fast the machine is and nothing else.
	var one sync.Mutex
	recipetest.EachShared(t, func(t *testing.T, s *recipetest.Store) {
		one.Lock()
		defer one.Unlock()
		killHalf(t, s, 8, 25, max(d, 30*time.Second))
	})
}

// killHalf makes processes take names concurrently for a while, and kills every
// second one with -9 meanwhile.
func killHalf(t *testing.T, s *recipetest.Store, processes, callers int, d time.Duration) {
	log := filepath.Join(t.TempDir(), "log")
	var all, dead []*process
	for range processes {
		all = append(all, start(t, s.URL, log, callers))
	}
	wait := func() {
		for _, p := range all {
			p.take(t, callers)
		}
		time.Sleep(d / 2) // the duration of the soak test
	}
	wait()
	for i, p := range slices.Backward(all) {
		if i%2 == 1 {
			_ = p.cmd.Process.Kill() // whatever it does at that moment
			_ = p.cmd.Wait()
			all, dead = slices.Delete(all, i, i+1), append(dead, p)
		}
	}
	for _, p := range all {
		p.forget()
	}
	wait() // crashed processes must not block for ever
	for _, p := range all {
		p.end(t)
	}
	expectApart(t, log, dead)
	expectNothingHeld(t, recipetest.On(s.URL)(t))
}

// expectApart checks the log: a hold of a name must not begin before the previous
// one has ended, unless that one was lost or its process was killed.
func expectApart(t *testing.T, log string, dead []*process) {
	t.Helper()
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	type hold struct {
		token uint64
		pid   int
		open  bool
	}
	lost := strings.Count(string(b), "lost ")
	holds, last := 0, map[string]hold{}
	for line := range strings.Lines(string(b)) {
		var word, name string
		var now hold
		if _, err := fmt.Sscan(line, &word, &name, &now.token, &now.pid); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		before := last[name]
		if now.open = word == "begin"; !now.open {
			if before.token == now.token { // not a late message of one that was lost
				last[name] = now
			}
			continue
		}
		last[name] = now
		holds++
		killed := slices.ContainsFunc(dead, func(p *process) bool { return p.cmd.Process.Pid == before.pid })
		if before.open && !killed && !strings.Contains(string(b), fmt.Sprintf("lost %s %d ", name, before.token)) {
			t.Errorf("%s is held by %d and by %d", name, before.pid, now.pid)
		}
		if now.token <= before.token {
			t.Errorf("%s: token %d follows %d", name, now.token, before.token)
		}
	}
	t.Logf("%d holds of %d names, %d lost", holds, len(last), lost)
}

// A process takes names and reports each hold.
type process struct {
	cmd *exec.Cmd
	in  io.Closer

	mu    sync.Mutex // guards everything below
	holds int
	more  chan struct{} // capacity 1
}

func start(t *testing.T, url, log string, callers int) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), storeEnv+"="+url, logEnv+"="+log, callersEnv+"="+strconv.Itoa(callers))
	cmd.Stderr = t.Output()
	p := &process{cmd: cmd, more: make(chan struct{}, 1)}
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

// Write receives the reports of the process.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	p.holds += strings.Count(string(b), "\n")
	p.mu.Unlock()
	select {
	case p.more <- struct{}{}:
	default:
	}
	return len(b), nil
}

func (p *process) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds = 0
}

// take waits until the process has held names n times.
func (p *process) take(t *testing.T, n int) {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		p.mu.Lock()
		holds := p.holds
		p.mu.Unlock()
		if holds >= n {
			return
		}
		select {
		case <-p.more:
		case <-limit:
			t.Fatal("a process holds nothing any more")
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
