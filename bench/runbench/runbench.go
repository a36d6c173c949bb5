// Package runbench measures commands that run another one under a lock: pawl run,
// flock and etcdctl lock, each from start to end.
package runbench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-go/pawl/bench/compare"
	"github.com/pawl-go/pawl/internal/testserver"
)

// Part builds pawl, starts a server and returns the measurements.
func Part(t testing.TB) compare.Part {
	dir, err := os.MkdirTemp("", "runbench")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	pawl := filepath.Join(dir, "pawl")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", pawl, "./cmd/pawl")
	build.Dir = ".." // of the module bench, where this is run
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	s := testserver.NewEtcd(t)
	about := []string{
		"each runs true; flock and pawl with a file lock on a file system of this machine, which flock only locks and pawl writes to",
		"the server of etcdctl and pawl is one etcd on the same machine",
	}
	etcdctl, err := exec.LookPath("etcdctl")
	if err != nil {
		about = append(about, "etcdctl takes no part: "+err.Error())
	}
	return compare.Part{Name: "commands", About: about, PIDs: []int{s.PID()}, Rows: rows(dir, pawl, etcdctl, s.Addr())}
}

func rows(dir, pawl, etcdctl, addr string) []compare.Row {
	bare := command("true", nil, "true")
	file := []compare.Contender{
		bare,
		command("flock", nil, "flock", filepath.Join(dir, "flock"), "true"),
		command("pawl run", []string{"PAWL_STORE=sqlite://" + filepath.Join(dir, "locks.db")}, pawl, "run", "x", "--", "true"),
	}
	served := []compare.Contender{bare, command("pawl run etcd:", []string{"PAWL_STORE=etcd://" + addr}, pawl, "run", "x", "--", "true")}
	if etcdctl != "" {
		served = append(served, command("etcdctl lock", []string{"ETCDCTL_API=3", "ETCDCTL_ENDPOINTS=" + addr}, etcdctl, "lock", "x", "true"))
	}
	return []compare.Row{
		{
			Work: compare.Commands("local", "from start to end of a command that runs true under a lock of this machine"), Length: 500 * time.Millisecond, Who: file,
			Bounds: []compare.Bound{{Who: "pawl run", Than: "true", Plus: 15_000, AtMost: true, Why: "most of it is the start of a process of 25 MB with every engine in it"}},
		},
		{
			Work: compare.Commands("server", "from start to end of a command that runs true under a lock in etcd"), Length: 500 * time.Millisecond, Who: served,
		},
	}
}

// A process is a command that is run repeatedly.
type process struct {
	compare.Locker // nil: it is a Timer only
	env, args      []string
}

func command(name string, env []string, args ...string) compare.Contender {
	return compare.Contender{Name: name, Open: func(context.Context) (compare.Locker, error) {
		return &process{env: append([]string{"PATH=" + os.Getenv("PATH")}, env...), args: args}, nil
	}}
}

func (p *process) Close() error { return nil }

// Time returns the duration of one run.
func (p *process) Time(ctx context.Context, _ time.Duration) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, p.args[0], p.args[1:]...)
	cmd.Env = p.env
	begun := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(begun)
	if err != nil {
		return 0, fmt.Errorf("%s: %w: %s", p.args[0], err, out)
	}
	return took, nil
}
