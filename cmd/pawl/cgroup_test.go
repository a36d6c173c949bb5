//go:build linux

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// A cgroup is there while the command runs, and never afterwards: delegatedCgroup fails
// if it or a process is left in the one around it.
func TestTheCommandsCgroupIsRemoved(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 || ownCgroup() == "" {
		t.Skip("needs root and cgroup v2")
	}
	env := newTestEnv(t)
	start := func(around string, args ...string) chan int {
		cmd := env.command("sh", append([]string{"-c", `echo $$ >$0/cgroup.procs; exec pawl run --ttl 4s --kill-after 500ms x -- "$@"`, around}, args...)...)
		cmd.SysProcAttr, cmd.Stderr = &syscall.SysProcAttr{Setsid: true}, t.Output()
		return env.startAndWait(cmd)
	}
	cgroupOf := func(file string) string {
		_, path, _ := strings.Cut("\n"+env.read(file), "\n0::")
		return strings.TrimSpace(path)
	}

	around := delegatedCgroup(t)
	checkExit(t, start(around, "cp", "/proc/self/cgroup", "ends"), 0)
	if path := cgroupOf("ends"); !strings.HasPrefix(filepath.Base(path), "pawl-") || filepath.Base(filepath.Dir(path)) != filepath.Base(around) {
		t.Errorf("the command was in %q, not in a cgroup of its own in %s", path, around)
	}

	around = delegatedCgroup(t)
	checkExit(t, start(around, "sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $! >left"), 0)
	left := env.pid("left")
	if inside, err := os.ReadFile(filepath.Join(around, "cgroup.procs")); err != nil || !slices.Contains(strings.Fields(string(inside)), strconv.Itoa(left)) {
		t.Errorf("what the command has left running is not in pawl's cgroup: %q, %v", inside, err)
	}
	_ = syscall.Kill(left, syscall.SIGKILL)

	// The loss of the outer lock kills a nested pawl, which cannot remove its cgroup.
	around = delegatedCgroup(t)
	nested := start(around, "sh", "-c", `echo $PAWL_LOCK_TOKEN >token; exec pawl run y -- sh -c 'trap "" TERM; while :; do sleep 0.05; done'`)
	env.evict("x", "token")
	checkExit(t, nested, exitLost)

	around = delegatedCgroup(t)
	killed := start(around, "sh", "-c", "echo $PPID >guardian; setsid sleep 60 & wait")
	env.await("guardian")
	_ = syscall.Kill(env.pawlAbove("guardian"), syscall.SIGKILL)
	checkExit(t, killed, 137)
}
