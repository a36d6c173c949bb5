//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/pawl-go/pawl/internal/testserver"
)

func TestANestedPawlIsToldThatTheOuterOneRemovedThePassword(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t, "--requirepass", "hunter2")
	url := "redis://:hunter2@" + server.Addr()
	env := newTestEnv(t)
	const hint = "the outer pawl has removed the password from PAWL_STORE: name a file with the URL in PAWL_STORE_FILE"
	for _, inner := range []string{"pawl run b -- true", "pawl ls", "pawl once k -- true", "pawl inspect a", "pawl run b -- true 3>&1 | cat", "cd / && exec pawl elect e"} {
		p := env.with("PAWL_STORE="+url).run("pawl", "run", "a", "--", "sh", "-c", inner)
		if !strings.Contains(p.err, hint) || strings.Count(p.err, "\n") != 1 || strings.Contains(p.err+p.out, "hunter2") {
			t.Errorf("%s: %+v", inner, p)
		}
		if p.code != exitDenied && !strings.Contains(inner, "| cat") {
			t.Errorf("%s: exit code %d", inner, p.code)
		}
	}
	// The hint is also shown by a nested pawl whose outer one needed no store, and
	// not by one with a store of its own.
	p := env.with("PAWL_STORE="+url).run("pawl", "run", "a", "--", "pawl", "-s", "sqlite:own.db", "run", "b", "--", "true")
	if p.code != 0 || p.err != "" {
		t.Errorf("with -s: %+v", p)
	}
	p = env.with("PAWL_STORE="+url).run("pawl", "run", "a", "--", "sh", "-c", "PAWL_STORE=redis://"+server.Addr()+"/1 pawl ls")
	if p.code != exitDenied || strings.Contains(p.err, "outer") {
		t.Errorf("with a store of its own: %+v", p)
	}
	env.write("url", url)
	p = env.with("PAWL_STORE=", "PAWL_STORE_FILE=url").run("pawl", "run", "a", "--", "sh", "-c", "cd / && exec pawl ls")
	if p.code != 0 || !strings.Contains(p.out, "a ") {
		t.Errorf("by a file: %+v", p)
	}
}
