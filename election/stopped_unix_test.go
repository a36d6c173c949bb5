//go:build unix

package election_test

import (
	"syscall"
	"testing"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/election"
	"github.com/pawl-go/pawl/internal/recipetest"
)

func TestALeaderThatWasStoppedFindsThatItsTimeIsOver(t *testing.T) {
	t.Parallel()
	recipetest.EachSite(t, func(t *testing.T, s *recipetest.Site) {
		c := newChild(t, s.URL)
		seen := watch(t, election.New(recipetest.On(s.URL)(t), "job"))
		expect(t, seen, "child")
		if err := c.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		heir := campaign(t, election.New(recipetest.On(s.URL)(t, pawl.WithTTL(ttl)), "job"), "heir")
		expect(t, seen, "-", "heir")
		if err := c.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if line := <-c.lines; len(line) < 4 || line[:4] != "over" {
			t.Errorf("a leader that was stopped says %q", line)
		}
		if err := heir.Resign(); err != nil {
			t.Error(err)
		}
	})
}
