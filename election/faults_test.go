package election_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/election"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/recipetest"
)

const ttl = 2 * time.Second

// Only the test binary reads these; the first makes it a candidate.
const (
	storeEnv = "PAWL_TEST_STORE"
	nameEnv  = "PAWL_TEST_NAME"
	validEnv = "PAWL_TEST_VALID"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(storeEnv); url != "" {
		if err := lead(url, os.Getenv(nameEnv), os.Getenv(validEnv)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(recipetest.Main(m))
}

// lead is a candidate's process: it says when it leads, and when it does no more. It
// keeps in a file when it last had a valid lease.
func lead(url, name, valid string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute) // it does not outlive a test that was killed
	defer cancel()
	c, err := pawl.Open(ctx, url, pawl.WithTTL(ttl))
	if err != nil {
		return err
	}
	l, err := election.New(c, name).Campaign(ctx, "old")
	if err != nil {
		return err
	}
	f, err := os.Create(valid)
	if err != nil {
		return err
	}
	for told := false; ctx.Err() == nil; {
		now := time.Now() // before it is asked: it may be stopped in between
		if l.Err() != nil {
			break
		}
		if _, err := f.WriteAt(fmt.Appendf(nil, "%020d", now.UnixNano()), 0); err != nil {
			return err
		}
		if !told {
			told = true
			fmt.Println("leads")
		}
		time.Sleep(time.Millisecond)
	}
	fmt.Println("over", context.Cause(l.Context()))
	return nil
}

// A child is a candidate's process; it tells the lines that it writes.
type child struct {
	*exec.Cmd
	lines chan string
	valid string // the file that says when it last had a valid lease
}

func (c *child) Write(b []byte) (int, error) {
	for line := range strings.Lines(string(b)) {
		c.lines <- strings.TrimSpace(line)
	}
	return len(b), nil
}

func newChild(t *testing.T, url, name string) (*child, error) {
	t.Helper()
	c := &child{exec.Command(os.Args[0]), make(chan string, 10), filepath.Join(t.TempDir(), "valid")}
	c.Env = append(os.Environ(), storeEnv+"="+url, nameEnv+"="+name, validEnv+"="+c.valid)
	c.Stderr, c.Stdout = t.Output(), c
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	return c, next(c.lines, "leads")
}

// overBy fails the test if the child had a valid lease after another began to lead.
func (c *child) overBy(t *testing.T, began time.Time) {
	t.Helper()
	b, err := os.ReadFile(c.valid)
	if err != nil {
		t.Fatal(err)
	}
	last, err := strconv.ParseInt(strings.TrimLeft(string(b), "0"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if at := time.Unix(0, last); at.After(began) {
		t.Errorf("two lead at a time: the old leader for %v more", at.Sub(began))
	}
}

// undisturbed runs a round of an election, and another one if the machine or the
// store stalled in it: the promised times hold only without a stall. That at most one
// leads holds always, and is not retried.
func undisturbed(t *testing.T, open recipetest.Opener, round func(name string) error) {
	t.Helper()
	for i := range 8 {
		stood := standstill(t, open)
		err := round(fmt.Sprint("job", i))
		longest := stood()
		if err == nil || t.Failed() {
			return
		}
		if longest < ttl/8 {
			t.Fatal(err)
		}
		t.Logf("once more, as all stood still for %v: %v", longest, err)
	}
	t.Fatal("no round was undisturbed")
}

// standstill begins to measure, and the function it returns says for how long
// nothing went on at most.
func standstill(t *testing.T, open recipetest.Opener) func() time.Duration {
	c := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	longest := make(chan time.Duration)
	go func() { // the caller waits for it
		worst, last := time.Duration(0), time.Now()
		for ctx.Err() == nil {
			for range c.List(ctx, "nothing") {
				break
			}
			time.Sleep(5 * time.Millisecond)
			now := time.Now()
			worst, last = max(worst, now.Sub(last)), now
		}
		longest <- worst
	}()
	return func() time.Duration { cancel(); return <-longest }
}

// succeed has another lead after the old leader was done away with, and looks whether
// all is as it must be: in time, with a larger token, and as observers see it.
func succeed(t *testing.T, open recipetest.Opener, name string, seen <-chan string, old uint64) (began time.Time, err error) {
	t.Helper()
	from := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	heir, err := election.New(open(t, pawl.WithTTL(ttl)), name).Campaign(ctx, "heir")
	began = time.Now()
	if err != nil {
		return began, err
	}
	if heir.Token() <= old {
		t.Errorf("token %d follows %d", heir.Token(), old)
	}
	if took := began.Sub(from); took > 2*ttl {
		err = fmt.Errorf("the leader was replaced after %v, more than two TTLs", took)
	}
	err = errors.Join(err, next(seen, "-", "heir"))
	return began, errors.Join(err, heir.Resign(), next(seen, "-"))
}

// leaderOf returns the token of the leader that an observer must see.
func leaderOf(t *testing.T, e *election.Election) uint64 {
	t.Helper()
	l, err := e.Leader(t.Context())
	if err != nil {
		return 0 // it was lost meanwhile, which the round will find
	}
	return l.Token
}

// led starts a process that leads, and returns once it is seen from aside.
func led(t *testing.T, s *recipetest.Store, name string) (c *child, seen <-chan string, token uint64, err error) {
	t.Helper()
	if c, err = newChild(t, s.URL, name); err != nil {
		return nil, nil, 0, err
	}
	aside := election.New(recipetest.On(s.URL)(t), name)
	seen = watch(t, aside)
	if err = next(seen, "old"); err != nil {
		return nil, nil, 0, err
	}
	return c, seen, leaderOf(t, aside), nil
}

func TestAKilledLeaderIsReplacedWithinTwoTTLs(t *testing.T) {
	t.Parallel()
	recipetest.EachShared(t, func(t *testing.T, s *recipetest.Store) {
		open := recipetest.On(s.URL)
		undisturbed(t, open, func(name string) error {
			c, seen, token, err := led(t, s, name)
			if err != nil {
				return err
			}
			_ = c.Process.Kill()
			began, err := succeed(t, open, name, seen, token)
			c.overBy(t, began)
			return err
		})
	})
}

func TestALeaderThatIsCutOffKnowsBeforeAnotherLeads(t *testing.T) {
	t.Parallel()
	recipetest.EachShared(t, func(t *testing.T, s *recipetest.Store) {
		if !s.Served() {
			return // it is a file: there is nothing to cut
		}
		open := recipetest.On(s.URL)
		undisturbed(t, open, func(name string) error {
			through, proxies := s.Through(t)
			old := campaign(t, election.New(through(t, pawl.WithTTL(ttl)), name), "old")
			seen := watch(t, election.New(open(t), name))
			if err := next(seen, "old"); err != nil {
				return err
			}
			for _, p := range proxies {
				p.BlackHole(faultproxy.Both)
			}
			valid := make(chan time.Time)
			go func() { // told below
				last := time.Time{}
				for now := time.Now(); old.Err() == nil; now = time.Now() {
					last = now
					time.Sleep(time.Millisecond)
				}
				valid <- last
			}()
			began, err := succeed(t, open, name, seen, old.Token())
			if at := <-valid; at.After(began) {
				t.Errorf("two lead at a time: the old leader for %v more", at.Sub(began))
			}
			if cause := context.Cause(old.Context()); !errors.Is(cause, pawl.ErrLost) {
				t.Errorf("the old leader's context ended with %v", cause)
			}
			for _, p := range proxies {
				p.Heal()
			}
			if err := old.Resign(); !errors.Is(err, pawl.ErrLost) {
				t.Errorf("the old leader resigns: %v, not ErrLost", err)
			}
			return err
		})
	})
}
