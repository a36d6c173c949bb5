//go:build linux

package main

import (
	"net"
	"strings"
	"syscall"
	"testing"
)

// A signal also ends pawl while it connects to a store that does not answer.
func TestASignalEndsTheFirstContact(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"run", "once", "elect"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			hole, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer hole.Close()
			env := newTestEnv(t).with("PAWL_STORE=redis://" + hole.Addr().String())
			args := []string{verb, "--events", "events", "x"}
			if verb == "elect" {
				args = append(args, "value")
			}
			cmd := env.command("pawl", append(args, "--", "touch", "ran")...)
			var said strings.Builder
			cmd.Stderr = &said
			ended := env.startAndWait(cmd)
			conn, err := hole.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			checkExit(t, ended, 143)
			if !strings.Contains(env.read("events"), `"event":"interrupted","name":"x","error":"terminated"`) {
				t.Errorf("events: %s", env.read("events"))
			}
			if said.String() != "" {
				t.Errorf("said: %s", said.String())
			}
		})
	}
}

// A command that was never started is an event too.
func TestAStoreThatCannotBeReachedIsAnEvent(t *testing.T) {
	t.Parallel()
	hole, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	hole.Close() // nobody listens
	for _, verb := range []string{"run", "once"} {
		env := newTestEnv(t).with("PAWL_STORE=redis://" + hole.Addr().String())
		if p := env.run("pawl", verb, "--events", "events", "x", "--", "true"); p.code != 69 {
			t.Errorf("%s: exit %d: %s", verb, p.code, p.err)
		}
		if !strings.Contains(env.read("events"), `"event":"failed","name":"x"`) {
			t.Errorf("%s: events: %s", verb, env.read("events"))
		}
	}
}
