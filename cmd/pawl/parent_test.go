//go:build linux

package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/pawl-go/pawl"
)

// Containers may share a host's name and each count their processes from 1: what is
// our parent here may be a stranger's number there.
func TestAStrangerWithTheNumberOfOurParentIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	cmd := s.command("sh", "-c", `echo $$ >parent; until [ -e go ]; do sleep 0.02; done; pawl run -w 1ms x -- touch ran; exit $?`)
	var said bytes.Buffer
	cmd.Stderr = &said
	ended := s.started(cmd)
	stranger := self("stranger", "")
	stranger.PID = s.pid("parent")
	c, err := pawl.Open(t.Context(), "sqlite://"+s.path("locks.db"), pawl.WithNote(stranger.note()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Mutex("x").Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.write("go", "")
	exited(t, ended, 75)
	if !strings.Contains(said.String(), `"x" is busy: held by `+stranger.User) {
		t.Errorf("it says %s", said.String())
	}
}
