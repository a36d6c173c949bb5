package zkdoctor

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/doctortest"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
	_ "github.com/pawl-go/pawl/zklock"
	"github.com/pawl-go/pawl/zklock/internal/zkpath"
)

func storeOf(addresses ...string) string { return "zk://" + strings.Join(addresses, ",") + "/team" }

func TestAGoodEnsembleIsCleanAndStaysAsItIs(t *testing.T) {
	t.Parallel()
	e := testserver.ZooKeepers(t, 3, nil, "forceSync=yes")
	conn := dialTo(t, e.Addrs()...)
	store := storeOf(e.Addrs()...)
	before := content(t, conn, "/")
	found := doctortest.Examine(t, store) // where nothing was locked yet
	doctortest.CleanButTimes(t, found)
	t.Log("\n" + doctortest.Text(found...))
	if after := content(t, conn, "/"); after != before {
		t.Errorf("the examination changed the store:\n%s\n%s", before, after)
	}
	locks, err := pawl.Open(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	lease, err := locks.Mutex("name", pawl.WithTTL(30*time.Second)).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before = content(t, conn, "/team/lines")
	found = doctortest.Examine(t, store)
	doctortest.CleanButTimes(t, found)
	for _, check := range []string{"ensemble", "majority", "servers", "followers", "endpoints", "session limits", "right to read", "right to create", "right to delete"} {
		doctortest.Expect(t, found, check, "", doctor.OK)
	}
	for _, node := range e.Addrs() {
		for _, check := range []string{"state", "version", "tick", "client limit", "forcesync"} {
			doctortest.Expect(t, found, check, node, doctor.OK)
		}
		doctortest.Measured(t, found, "round trip", node)
	}
	if after := content(t, conn, "/team/lines"); after != before {
		t.Errorf("the examination changed the store:\n%s\n%s", before, after)
	}
	if err := lease.Unlock(); err != nil {
		t.Error(err)
	}
}

func TestSessionLimitsAreJudgedByTheTTLsThatTheyAllow(t *testing.T) {
	t.Parallel()
	low := testserver.ZooKeeper(t, "maxSessionTimeout=5000", "forceSync=yes")
	found := doctortest.Examine(t, storeOf(low.Addr()))
	doctortest.Expect(t, found, "session limits", "", doctor.Broken, "TTLs of up to 3.75s", "also the 30s", "maxSessionTimeout=40000")
	locks, err := pawl.Open(t.Context(), storeOf(low.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	if lease, err := locks.Mutex("name").TryLock(t.Context()); err == nil { // what the finding says
		t.Errorf("a lock with the default TTL was granted: %v", lease.Unlock())
	}
	doctortest.CleanButTimes(t, found, "session limits", "servers")

	found = doctortest.Examine(t, storeOf(low.Addr())+"?ttl=3s")
	doctortest.Expect(t, found, "session limits", "", doctor.OK, "TTLs of up to 3.75s")
}

// A server that takes longer than a second to answer is waited for, as pawl's own
// connections would.
func TestSessionLimitsOfASlowServerAreFound(t *testing.T) {
	t.Parallel()
	way := faultproxy.New(t, testserver.ZooKeeper(t).Addr())
	e := &ensemble{settings: zkpath.Settings{Servers: []string{way.Addr()}}}
	e.ask(t.Context())
	defer e.close()
	way.BlackHole(faultproxy.Both)
	time.AfterFunc(1500*time.Millisecond, way.Heal)
	if f := sessionLimits(t.Context(), e); f.Level != doctor.OK {
		t.Error(doctortest.Text(f))
	}
}

// A server is started again with each line that doctor prints for its file, and is good then.
func TestLinesForTheFileOfAServerMend(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		wrong []string
		found map[string]string // by check
	}{
		"limits": {[]string{"maxSessionTimeout=20000", "maxClientCnxns=8", "forceSync=no"}, map[string]string{
			"session limits": "TTLs of up to 15s", "client limit": "8 connections", "forcesync": "does not wait"}},
		"ticks": {[]string{"tickTime=10000", "4lw.commands.whitelist=srvr,conf", "forceSync=yes"}, map[string]string{
			"session limits": "sessions of 20s to 1m0s", "tick": "10s: TTLs from 22.5s are safe", "forcesync": "does not answer mntr"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testserver.ZooKeeper(t, test.wrong...)
			before := doctortest.Examine(t, storeOf(server.Addr()))
			lines := test.wrong
			for check, words := range test.found {
				f := doctortest.Find(t, before, check, "")
				if f.Level == doctor.OK || !strings.Contains(f.Found, words) {
					t.Errorf("%s, not %q", doctortest.Text(f), words)
				}
				lines = append(lines, f.Mend) // the last of a setting counts
			}
			again := testserver.ZooKeeper(t, lines...)
			after := doctortest.Examine(t, storeOf(again.Addr()))
			for i := range after {
				if after[i].Node == again.Addr() {
					after[i].Node = server.Addr()
				}
			}
			for check := range test.found {
				doctortest.Mended(t, before, after, check, doctortest.Find(t, before, check, "").Node, slices.Collect(maps.Keys(test.found))...)
				if f := doctortest.Find(t, after, check, ""); f.Level != doctor.OK {
					t.Errorf("after %q: %s", lines, doctortest.Text(f))
				}
			}
		})
	}
}

func TestAServerThatTellsNothingIsWarnedOf(t *testing.T) {
	t.Parallel()
	server := testserver.ZooKeeper(t, "4lw.commands.whitelist=srvr", "forceSync=yes")
	store := storeOf(server.Addr())
	found := doctortest.Examine(t, store)
	f := doctortest.Expect(t, found, "settings", server.Addr(), doctor.Warning, "does not answer conf")
	doctortest.Expect(t, found, "forcesync", server.Addr(), doctor.Warning, "does not answer mntr", f.Mend)
	doctortest.CleanButTimes(t, found, "settings", "forcesync", "servers")
	configure(t, server, f.Mend)
	server.Restart()
	after := doctortest.Examine(t, store)
	doctortest.Mended(t, found, after, "settings", server.Addr())
	doctortest.Mended(t, found, after, "forcesync", server.Addr())
}

func TestFewConnectionsAreWarnedOf(t *testing.T) {
	t.Parallel()
	server := testserver.ZooKeeper(t, "maxClientCnxns=8", "forceSync=yes")
	found := doctortest.Examine(t, storeOf(server.Addr()))
	doctortest.Expect(t, found, "client limit", server.Addr(), doctor.Warning, "8 connections from one address", "cannot lock", "maxClientCnxns=60")
	doctortest.CleanButTimes(t, found, "client limit", "servers")
}

func TestEachMissingRightIsNamed(t *testing.T) {
	t.Parallel()
	server := testserver.ZooKeeper(t)
	conn := dialTo(t, server.Addr())
	without := func(perms int32) []zk.ACL { return zk.WorldACL(zk.PermAll &^ perms) }
	for i, dir := range []string{"lines", "records", "desks"} {
		for right, perm := range map[string]int32{"read": zk.PermRead, "create": zk.PermCreate, "delete": zk.PermDelete} {
			path := fmt.Sprintf("/%s%d", right, i)
			for _, node := range []string{"", "/lines", "/records", "/desks"} {
				acl := without(0)
				if node == "/"+dir {
					acl = without(perm)
				}
				if _, err := conn.Create(path+node, nil, 0, acl); err != nil {
					t.Fatal(err)
				}
			}
			store := "zk://" + server.Addr() + path
			node := path + "/" + dir
			found := doctortest.Examine(t, store)
			denied := 0
			for _, f := range found {
				if f.Level == doctor.Broken {
					denied++
					if f.Check != "right to "+right || !strings.Contains(f.Found, "denied below "+node) || !strings.Contains(f.Mend, "setAcl "+node+" world:anyone:cdrwa #") {
						t.Errorf("without the right to %s %s: %+v", right, node, f)
					}
				}
			}
			if denied != 1 {
				t.Errorf("without the right to %s %s:\n%s", right, node, doctortest.Text(found...))
			}
			if _, err := conn.SetACL(node, without(0), -1); err != nil {
				t.Fatal(err)
			}
			doctortest.CleanButTimes(t, doctortest.Examine(t, store), "servers", "forcesync")
			doctortest.Applied("right to " + right)
		}
	}
}

func TestAPathThatMayNotBeCreatedIsFound(t *testing.T) {
	t.Parallel()
	server := testserver.ZooKeeper(t)
	conn := dialTo(t, server.Addr())
	if _, err := conn.Create("/closed", nil, 0, append(zk.WorldACL(zk.PermRead), zk.DigestACL(zk.PermAdmin, "ana", "hidden-word")...)); err != nil {
		t.Fatal(err)
	}
	store := "zk://ana:hidden-word@" + server.Addr() + "/closed/team?acl=creator"
	found := doctortest.Examine(t, store)
	f := doctortest.Expect(t, found, "right to create", "", doctor.Broken, "by the ACL of /closed", "in place of what getAcl shows")
	if text := doctortest.Text(found...); strings.Contains(text, "hidden-word") {
		t.Errorf("the password is shown:\n%s", text)
	}
	doctortest.CleanButTimes(t, doctortest.Examine(t, "zk://ana:hidden-word@"+server.Addr()+"/open/team?acl=creator"), "servers", "forcesync")
	words := regexp.MustCompile(`addauth digest (\S+)\\nsetAcl (\S+) auth::cdrwa\\n`).FindStringSubmatch(f.Mend)
	if words == nil {
		t.Fatalf("%q", f.Mend)
	}
	if err := conn.AddAuth("digest", []byte(strings.Replace(words[1], "PASSWORD", "hidden-word", 1))); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.SetACL(words[2], zk.AuthACL(zk.PermAll), -1); err != nil {
		t.Fatal(err)
	}
	doctortest.Mended(t, found, doctortest.Examine(t, store), "right to create", "")
}

func TestAnEnsembleThatIsAwayIsAnError(t *testing.T) {
	t.Parallel()
	_, err := doctor.Examine(t.Context(), fmt.Sprintf("zk://ana:hidden-word@127.0.0.1:%d", testserver.FreePort(t)))
	if !errors.Is(err, driver.ErrUnreachable) || strings.Contains(err.Error(), "hidden-word") {
		t.Errorf("%v", err)
	}
}

// Servers of these versions are not at hand.
func TestOldVersionsAreJudged(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]doctor.Level{
		"3.4.13-2d71af4dbe22557fda74f9a9b4309b15a7487f03, built on 06/29/2018": doctor.Broken,
		"3.5.9-83df9301aa5c2a5d284a9940177808c01bc35cef, built on 01/06/2021":  doctor.Warning,
		"3.5.10-1, built on 2022": doctor.OK, "3.9.2-1": doctor.OK, "4.0.0": doctor.OK, "": doctor.Warning,
	} {
		if f := judgeVersion(text); f.Level != want || (f.Mend == "") != (want == doctor.OK) {
			t.Errorf("%q: %+v", text, f)
		}
	}
}
