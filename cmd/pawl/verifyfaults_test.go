//go:build linux

package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
)

// Clients that cannot renew lose their places in line, which no promise forbids.
func TestVerifyDoesNotBlameAStoreForAnOutage(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t)
	proxy := faultproxy.New(t, redis.Addr())
	verifyWithOutage(t, "redis://"+redis.Addr(), "redis://"+proxy.Addr(), func() {
		proxy.Refuse()
		proxy.Reset()
		time.Sleep(4 * time.Second) // the claims expire meanwhile
		proxy.Heal()
	})
}

// Beats write: a store that answers only reads, as during a backup, is away too.
func TestVerifyDoesNotBlameAStoreThatCannotWriteForAWhile(t *testing.T) {
	t.Parallel()
	s := testserver.MariaDB(t)
	store := "mysql://root@" + s.Addr() + "/mysql"
	migrated(t, store)
	db, err := sql.Open("mysql", "root@tcp("+s.Addr()+")/")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // the lock belongs to a connection
	verifyWithOutage(t, store, store, func() {
		for _, statement := range []string{"FLUSH TABLES WITH READ LOCK", "SELECT SLEEP(4)", "UNLOCK TABLES"} {
			if _, err := db.Exec(statement); err != nil {
				t.Error(err)
			}
		}
	})
}

// verifyWithOutage runs verify on a store, by another URL of it, while it is away for some time.
func verifyWithOutage(t *testing.T, store, as string, outage func()) {
	t.Helper()
	env := newTestEnv(t).with("PAWL_STORE=" + as)
	cmd := env.command("pawl", "verify", "--json", "--for", "12s", "--ttl", "1s", "--faults", "none")
	var out, said strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &said
	ended := env.startAndWait(cmd)
	waitForSessions(t, store, 4) // before that, a worker could not begin
	outage()
	if code := <-ended; code != 0 || said.Len() > 0 {
		t.Fatalf("exit %d: %s%s", code, out.String(), said.String())
	}
	var j verifyJSON
	if err := json.Unmarshal([]byte(out.String()), &j); err != nil {
		t.Fatal(err)
	}
	if j.Counts.Faults["store away"] == 0 || j.Counts.Grants == 0 {
		t.Errorf("%+v", j.Counts)
	}
}

// A worker that was killed while the store is away is started until the store is back.
func TestVerifyReplacesAWorkerWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t)
	proxy := faultproxy.New(t, redis.Addr())
	env := newTestEnv(t).with("PAWL_STORE=redis://" + proxy.Addr())
	cmd := env.command("pawl", "verify", "--json", "--for", "15s", "--ttl", "1s", "--workers", "2", "--faults", "kill")
	var out, said strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &said
	ended := env.startAndWait(cmd)
	waitForSessions(t, "redis://"+redis.Addr(), 2)
	first := env.workersOf(cmd.Process.Pid, 2)
	proxy.Refuse()
	proxy.Reset()
	started := map[int]bool{}
	eventually(func() bool { // or verify has ended
		for _, pid := range descendantsOf(cmd.Process.Pid, nil) {
			if !slices.Contains(first, pid) {
				started[pid] = true
			}
		}
		return len(started) >= 3 || syscall.Kill(cmd.Process.Pid, 0) != nil
	})
	proxy.Heal()
	if code := <-ended; code != 0 || said.Len() > 0 {
		t.Fatalf("exit %d after %d workers were started: %s%s", code, len(started), out.String(), said.String())
	}
	var j verifyJSON
	if err := json.Unmarshal([]byte(out.String()), &j); err != nil {
		t.Fatal(err)
	}
	if j.Counts.Faults["store away"] == 0 || j.Counts.Workers < 2+3 {
		t.Errorf("%+v", j.Counts)
	}
}

// An upgrade removes the file of the program, or puts another one in its place.
func TestVerifyGoesOnWhenItsProgramIsReplaced(t *testing.T) {
	t.Parallel()
	for what, replace := range map[string]func(path string) error{
		"removed":  os.Remove,
		"upgraded": func(path string) error { return os.WriteFile(path+".new", []byte("#!/bin/sh\nexit 1\n"), 0o700) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			env := newTestEnv(t)
			cmd := env.command("pawl", "verify", "--json", "--for", "6s", "--ttl", "1s", "--workers", "2", "--faults", "kill")
			own := env.path("pawl")
			program, err := os.ReadFile(cmd.Path)
			if err == nil {
				err = os.WriteFile(own, program, 0o700)
			}
			if err != nil {
				t.Fatal(err)
			}
			cmd.Path = own
			var out, said strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &said
			ended := env.startAndWait(cmd)
			first := env.workersOf(cmd.Process.Pid, 2)
			if err := replace(own); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(own + ".new"); err == nil {
				if err := os.Rename(own+".new", own); err != nil {
					t.Fatal(err)
				}
			}
			if code := <-ended; code != 0 || said.Len() > 0 {
				t.Fatalf("exit %d: %s%s", code, out.String(), said.String())
			}
			var j verifyJSON
			if err := json.Unmarshal([]byte(out.String()), &j); err != nil {
				t.Fatal(err)
			}
			if j.Counts.Workers <= len(first) {
				t.Errorf("no worker was replaced: %+v", j.Counts)
			}
		})
	}
}

// waitForSessions waits until that many sessions have had claims in a store.
func waitForSessions(t *testing.T, store string, n int) {
	t.Helper()
	client, err := pawl.Open(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	seen := map[string]bool{}
	if !eventually(func() bool {
		for e, err := range client.List(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(e.Name, "/probe") {
				seen[e.Session] = true
			}
		}
		return len(seen) >= n
	}) {
		t.Fatalf("%d sessions were seen", len(seen))
	}
}

// A server whose ticks are as long as the TTL keeps the claims of a killed worker for three
// TTLs.
func TestVerifyDoesNotBlameAZooKeeperForItsTicks(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t).with("PAWL_STORE=zk://" + testserver.ZooKeeper(t, "tickTime=2000").Addr())
	j := env.verified(0, "--for", "30s", "--faults", "kill")
	if j.Counts.Faults["kill"] == 0 {
		t.Errorf("%+v", j.Counts)
	}
}

func TestVerifyEndsWithAWorkerThatEndsByItself(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t).with("PAWL_STORE=redis://" + testserver.Redis(t).Addr())
	cmd := env.command("pawl", "verify", "--for", "1m", "--faults", "none")
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	ended := env.startAndWait(cmd)
	workers := env.workersOf(cmd.Process.Pid, 4)
	if vars, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", workers[0])); err != nil || bytes.Contains(vars, []byte("PAWL_STORE=")) {
		t.Errorf("a worker has the store in its environment, %v", err)
	}
	if !eventually(func() bool { return len(env.list("ls", "--json")) > 0 }) {
		t.Fatal("nothing is held")
	}
	if err := syscall.Kill(workers[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	checkExit(t, ended, 2)
	if !strings.HasSuffix(said.String(), ": a worker ended by itself: signal: killed\n") || strings.Count(said.String(), "\n") != 1 {
		t.Errorf("said: %s", said.String())
	}
	if !gone(workers) {
		t.Error("workers are left")
	}
	if all := env.list("ls", "--json"); len(all) > 0 {
		t.Errorf("left in the store: %v", all)
	}
}

// Somebody who begins to use the prefix during a run is not evicted.
func TestVerifyLeavesTheLocksOfOthers(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	cmd := env.command("pawl", "verify", "--for", "1m", "--faults", "none", "--prefix", "app-")
	ended := env.startAndWait(cmd)
	env.workersOf(cmd.Process.Pid, 4)
	if !eventually(func() bool { return len(env.list("ls", "--json")) > 0 }) {
		t.Fatal("nothing is held")
	}
	env.hold("app-orders")
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	checkExit(t, ended, 130)
	if all := env.list("ls", "--json"); len(all) != 1 || all[0]["name"] != "app-orders" {
		t.Errorf("in the store are %v", all)
	}
	env.release("app-orders")
}
