//go:build unix

package election_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/pawl-go/pawl/internal/recipetest"
)

func TestALeaderThatWasStoppedFindsThatItsTimeIsOver(t *testing.T) {
	t.Parallel()
	recipetest.EachShared(t, func(t *testing.T, s *recipetest.Store) {
		open := recipetest.On(s.URL)
		undisturbed(t, open, func(name string) error {
			c, seen, token, err := led(t, s, name)
			if err != nil {
				return err
			}
			if err := c.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			began, err := succeed(t, open, name, seen, token)
			if serr := c.Process.Signal(syscall.SIGCONT); serr != nil {
				t.Fatal(serr)
			}
			if line := <-c.lines; !strings.HasPrefix(line, "over") {
				t.Errorf("a leader that was stopped says %q", line)
			}
			c.overBy(t, began)
			return err
		})
	})
}
