package main

import (
	"strings"
	"testing"

	"github.com/pawl-go/pawl/internal/testserver"
)

func TestDoctorColoursLevelsOnATerminal(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	x := newTestEnv(t).with("TERM=xterm").terminal(200, "pawl", "doctor", "-s", "redis://"+s.Addr())
	x.ends(2)
	for _, want := range []string{"\x1b[32mok\x1b[0m ", "\x1b[33mwarning\x1b[0m  persistence ", "\x1b[31mbroken\x1b[0m   eviction policy "} {
		if !strings.Contains(x.shown(), want) {
			t.Errorf("%q is not shown: %q", want, x.shown())
		}
	}
	plain := newTestEnv(t).with("TERM=xterm", "NO_COLOR=1").terminal(200, "pawl", "doctor", "-s", "redis://"+s.Addr())
	plain.ends(2)
	if strings.Contains(plain.shown(), "\x1b") {
		t.Errorf("colours are shown: %q", plain.shown())
	}
}
