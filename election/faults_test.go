package election_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/election"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/recipetest"
	"github.com/pawl-go/pawl/internal/testserver"
)

const (
	ttl      = 2 * time.Second
	storeEnv = "PAWL_TEST_STORE" // makes the test binary a candidate
)

func TestMain(m *testing.M) {
	if url := os.Getenv(storeEnv); url != "" {
		if err := lead(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(recipetest.Main(m))
}

// lead is a candidate's process: it says when it leads, and when it does no more.
func lead(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // it does not outlive a test that was killed
	defer cancel()
	c, err := pawl.Open(ctx, url, pawl.WithTTL(ttl))
	if err != nil {
		return err
	}
	l, err := election.New(c, "job").Campaign(ctx, "child")
	if err != nil {
		return err
	}
	fmt.Println("leads")
	select {
	case <-l.Context().Done():
		fmt.Println("over", context.Cause(l.Context()))
	case <-ctx.Done():
	}
	return nil
}

// A child is a candidate's process; it tells the lines that it writes.
type child struct {
	*exec.Cmd
	lines chan string
}

func (c *child) Write(b []byte) (int, error) {
	for line := range strings.Lines(string(b)) {
		c.lines <- strings.TrimSpace(line)
	}
	return len(b), nil
}

func newChild(t *testing.T, url string) *child {
	t.Helper()
	c := &child{exec.Command(os.Args[0]), make(chan string, 10)}
	c.Env = append(os.Environ(), storeEnv+"="+url)
	c.Stderr, c.Stdout = t.Output(), c
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	expect(t, c.lines, "leads")
	return c
}

func TestAKilledLeaderIsReplacedWithinTwoTTLs(t *testing.T) {
	t.Parallel()
	recipetest.EachSite(t, func(t *testing.T, s *recipetest.Site) {
		c := newChild(t, s.URL)
		seen := watch(t, election.New(recipetest.On(s.URL)(t), "job"))
		expect(t, seen, "child")
		_ = c.Process.Kill()
		killed := time.Now()
		heir := campaign(t, election.New(recipetest.On(s.URL)(t, pawl.WithTTL(ttl)), "job"), "heir")
		if took := time.Since(killed); took > 2*ttl {
			t.Errorf("a killed leader was replaced after %v, more than two TTLs", took)
		}
		expect(t, seen, "-", "heir")
		if err := heir.Resign(); err != nil {
			t.Error(err)
		}
		expect(t, seen, "-")
	})
}

func TestALeaderThatIsCutOffKnowsBeforeAnotherLeads(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	proxy := faultproxy.New(t, server.Addr())
	direct := recipetest.On("redis://" + server.Addr())
	old := campaign(t, election.New(recipetest.On("redis://"+proxy.Addr())(t, pawl.WithTTL(ttl)), "job"), "old")
	seen := watch(t, election.New(direct(t), "job"))
	expect(t, seen, "old")
	proxy.BlackHole(faultproxy.Both)
	cut := time.Now()
	heir := campaign(t, election.New(direct(t, pawl.WithTTL(ttl)), "job"), "heir")
	if old.Err() == nil {
		t.Error("two lead at a time")
	}
	if took := time.Since(cut); took > 2*ttl {
		t.Errorf("a leader that was cut off was replaced after %v, more than two TTLs", took)
	}
	if cause := context.Cause(old.Context()); !errors.Is(cause, pawl.ErrLost) {
		t.Errorf("the old leader's context ended with %v", cause)
	}
	if heir.Token() <= old.Token() {
		t.Errorf("token %d follows %d", heir.Token(), old.Token())
	}
	expect(t, seen, "-", "heir")
	proxy.Heal()
	if err := old.Resign(); !errors.Is(err, pawl.ErrLost) {
		t.Errorf("the old leader resigns: %v, not ErrLost", err)
	}
	if l, err := election.New(direct(t), "job").Leader(t.Context()); err != nil || l.Value != "heir" {
		t.Errorf("it ended the heir's leadership: %v, %v", l, err)
	}
}
