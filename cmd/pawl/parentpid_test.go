//go:build linux

package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-go/pawl"
)

// Containers may share a host's name and each count their processes from 1: the number
// of our parent here, or of a pawl that it is the command of, may be a stranger's there.
func TestAStrangerWithTheNumberOfOurParentIsWaitedFor(t *testing.T) {
	t.Parallel()
	t.Run("a shell", func(t *testing.T) {
		t.Parallel()
		waitedFor(t, `echo $$ >parent`)
	})
	t.Run("a pawl", func(t *testing.T) {
		t.Parallel()
		waitedFor(t, `echo $PPID >parent`, "pawl", "run", "y", "--")
	})
}

// waitedFor has a stranger hold a lock under the number that script writes down, in a
// shell that the given words start, and the lock asked for from there.
func waitedFor(t *testing.T, script string, starts ...string) {
	env := newTestEnv(t)
	words := slices.Concat(starts, []string{"sh", "-c", script + `; until [ -e go ]; do sleep 0.02; done; pawl run -w 1ms x -- touch ran; exit $?`})
	cmd := env.command(words[0], words[1:]...)
	var said bytes.Buffer
	cmd.Stderr = &said
	ended := env.startAndWait(cmd)
	stranger := thisProcess("stranger", "")
	stranger.PID = env.pid("parent")
	c, err := pawl.Open(t.Context(), "sqlite://"+env.path("locks.db"), pawl.WithNote(stranger.note()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Mutex("x").Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	env.write("go", "")
	checkExit(t, ended, 75)
	if !strings.Contains(said.String(), `"x" is busy: held by `+stranger.User) {
		t.Errorf("it says %s", said.String())
	}
}
