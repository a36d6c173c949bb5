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
	url := recipetest.Redis(t)
	c := newChild(t, url)
	seen := watch(t, election.New(recipetest.On(url)(t), "job"))
	expect(t, seen, "child")
	if err := c.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	heir := campaign(t, election.New(recipetest.On(url)(t, pawl.WithTTL(ttl)), "job"), "heir")
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
}
