package redisdoctor

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
)

// An odd server is one whose INFO has few fields, or whose settings are not what they
// should be.
func odd(info, config map[string]string) *server {
	return &server{store: &store{url: &url.URL{Scheme: "redis"}}, info: info, config: config}
}

func TestAMendForAnOldServerHasOneSetting(t *testing.T) {
	for version, want := range map[string]string{
		"6.2.14": "CONFIG SET appendonly yes",
		"7.0.15": "CONFIG SET appendonly yes appendfsync always",
		"":       "CONFIG SET appendonly yes",
	} {
		f := persistence(t.Context(), odd(map[string]string{"redis_version": version}, map[string]string{}))
		if f.Mend != want {
			t.Errorf("version %q: %s", version, f.Mend)
		}
	}
}

func TestNothingIsSaidOfMemoryThatTheServerDoesNotTell(t *testing.T) {
	if f := memoryLeft(t.Context(), odd(map[string]string{}, nil)); f.Check != "" {
		t.Errorf("%+v", f)
	}
}

// Not every server that speaks the protocol tells all that Redis tells.
func TestAServerThatTellsNothingIsNotCalledGood(t *testing.T) {
	silent := odd(map[string]string{}, map[string]string{})
	var names []string
	for _, c := range slices.Concat(identity, checks) {
		if len(silent.lacks(c)) > 0 {
			names = append(names, c.name)
			continue
		}
		if f := c.f(t.Context(), silent); f.Check != "" && f.Level == doctor.OK {
			t.Errorf("%+v", f)
		}
	}
	if len(names) < 10 {
		t.Errorf("only %q are left out", names)
	}
	silent.addr = "127.0.0.1:6379"
	f := silent.untold([]string{"timeout", "role", "timeout"}, []string{"role", "idle timeout"})
	if f.Level != doctor.Warning || f.Found != "the server does not tell role, timeout" || f.Meaning != "Not checked: role, idle timeout." {
		t.Errorf("%+v", f)
	}
}

// A sentinel told to fail over does not ask the others.
func TestAMasterThatOtherSentinelsReachIsNotReplaced(t *testing.T) {
	at := func(addr, flags string) watcher {
		return watcher{addr: addr, master: map[string]string{"name": "m", "ip": "10.0.0.9", "port": "6379", "flags": flags}}
	}
	down, up := at("10.0.0.1:26379", "s_down,master"), at("10.0.0.2:26379", "master")
	f := masterUp([]watcher{{err: driver.ErrUnreachable}, up, down})
	if f.Level != doctor.Warning || f.Node != down.addr || f.Mend != "redis-cli -h 10.0.0.9 -p 6379 PING # where this sentinel runs" {
		t.Errorf("%+v", f)
	}
	if f := masterUp([]watcher{down}); f.Level != doctor.Broken || !strings.Contains(f.Mend, "SENTINEL FAILOVER m") {
		t.Errorf("%+v", f)
	}
	if f := masterUp([]watcher{up}); f.Level != doctor.OK {
		t.Errorf("%+v", f)
	}
}

// A node that misses another may be the one that is cut off.
func TestNoReplicaTakesOverFromAMasterThatOneNodeMisses(t *testing.T) {
	const text = "1 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 0-100\n" +
		"2 10.0.0.2:6379@16379 master,%s - 0 0 2 connected 101-16383\n" +
		"3 10.0.0.3:6379@16379 slave 2 0 0 2 connected\n"
	for flag, mend := range map[string]string{
		"fail":  "redis-cli -h 10.0.0.3 -p 6379 CLUSTER FAILOVER FORCE # if the node does not come back",
		"fail?": "redis-cli -h 10.0.0.2 -p 6379 PING # start it",
	} {
		all := clusterNodes(fmt.Sprintf(text, flag))
		if f := all[1].state(all); f.Level != doctor.Broken || f.Mend != mend {
			t.Errorf("%s: %+v", flag, f)
		}
	}
}

// A replica names its master by the ID that the node itself tells.
func TestEveryNodeOfAClusterIsKnownByItsID(t *testing.T) {
	t.Parallel()
	addr := testserver.RedisNode(t).Addr()
	u, err := url.Parse("redis-cluster://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	st, err := parse(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	s, err := connect(t.Context(), st, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	id, err := s.text(t.Context(), "CLUSTER", "MYID")
	if err != nil {
		t.Fatal(err)
	}
	text, err := s.text(t.Context(), "CLUSTER", "NODES")
	if all := clusterNodes(text); err != nil || len(all) != 1 || all[0].id != id {
		t.Errorf("%q, %v: the node's ID is %s", text, err, id)
	}
}

// A mend is typed into a shell; a server must not be able to put commands there.
func TestAFolderOfTheServerIsQuoted(t *testing.T) {
	f := diskWrites(t.Context(), odd(map[string]string{"aof_enabled": "1", "aof_last_write_status": "err"}, map[string]string{"dir": "/tmp; reboot"}))
	if want := "df -h '/tmp; reboot'"; f.Mend != want {
		t.Errorf("%s, not %s", f.Mend, want)
	}
}
