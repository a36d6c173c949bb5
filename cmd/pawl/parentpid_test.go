//go:build linux

package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-go/pawl"
)

// Containers may share a host name and each number their processes from 1: the pid
// of our parent, or of an enclosing pawl, may belong to an unrelated process in
// another container.
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

// waitedFor lets an unrelated process hold a lock under the pid that script writes
// down, in a shell started with the given words, and requests the lock from there.
func waitedFor(t *testing.T, script string, starts ...string) {
	env := newTestEnv(t)
	words := slices.Concat(starts, []string{"sh", "-c", script + `; until [ -e go ]; do sleep 0.02; done; pawl run -w 1ms x -- touch ran; exit $?`})
	cmd := env.command(words[0], words[1:]...)
	var said bytes.Buffer
	cmd.Stderr = &said
	ended := env.startAndWait(cmd)
	stranger := thisProcess("stranger", "")
	stranger.PID = env.pid("parent")
	c, err := pawl.Open(t.Context(), "sqlite://"+env.path("locks.db"), pawl.WithNote(stranger.Note()))
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
