//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/pawl-go/pawl/internal/testserver"
)

// What people do with locks by hand, on a store whose lines are single values.
func TestLocksOnNATSAreShownWatchedAndBroken(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t).with("PAWL_STORE=nats://" + testserver.NATS(t).Addr() + "/jobs")
	if all := env.list("ls", "--json"); len(all) > 0 {
		t.Errorf("a new bucket has %v", all)
	}
	env.hold("deploy", "--reason", "release 4.2")
	env.start("waits", "pawl", "run", "-q", "--events", env.path("waits"), "deploy", "--", "sh", "-c", "echo $PAWL_LOCK_TOKEN >came")
	line := func() []object { return env.list("inspect", "--json", "deploy") }
	if !eventually(func() bool { return len(line()) == 2 }) {
		t.Fatalf("the line is %v", line())
	}
	held := line()[0]
	if held["state"] != "held" || held["reason"] != "release 4.2" || line()[1]["state"] != "waiting" || line()[1]["ahead"] != 1.0 {
		t.Errorf("the line is %v", line())
	}
	if p := env.run("pawl", "ls"); p.code != 0 || !strings.Contains(p.out, "deploy  exclusive") {
		t.Errorf("ls: %+v", p)
	}
	if p := env.run("pawl", "inspect", "deploy"); p.code != 0 || !strings.HasPrefix(p.out, "deploy in nats://") {
		t.Errorf("inspect: %+v", p)
	}
	if p := env.run("pawl", "run", "-n", "deploy", "--", "true"); p.code != 75 || !strings.Contains(p.err, `"deploy" is busy: held by`) {
		t.Errorf("a busy lock: %+v", p)
	}

	watch, said := env.watch("deploy")
	defer func() { _ = watch.Process.Kill(); _ = watch.Wait() }()
	if first, second := said(), said(); first["state"] != "held" || second["state"] != "waiting" {
		t.Errorf("watch begins with %v and %v", first, second)
	}
	if p := env.run("pawl", "force-unlock", "--token", "1", "deploy"); p.code != 1 {
		t.Errorf("another token: %+v", p)
	}
	token := held["token"].(string)
	if p := env.run("pawl", "force-unlock", "--token", token, "deploy"); p.code != 0 || !strings.Contains(p.err+p.out, `broke="deploy" token=`+token) {
		t.Errorf("force-unlock: %+v", p)
	}
	env.await("came")
	if came := tokenIn(t, env.read("came")); came <= tokenIn(t, token) {
		t.Errorf("token %d after %s", came, token)
	}
	for told := said(); told["event"] != "left" || told["id"] != held["id"]; told = said() {
	}
	if !eventually(func() bool { return len(env.list("ls", "--json")) == 0 }) {
		t.Errorf("left: %v", env.list("ls", "--json"))
	}
}
