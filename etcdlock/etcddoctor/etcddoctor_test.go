package etcddoctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/driver"
	_ "github.com/pawl-go/pawl/etcdlock"
	"github.com/pawl-go/pawl/internal/doctortest"
	"github.com/pawl-go/pawl/internal/testserver"
)

func storeOf(addresses []string) string { return "etcd://" + strings.Join(addresses, ",") + "/team" }

func TestAGoodClusterIsCleanAndStaysAsItIs(t *testing.T) {
	t.Parallel()
	c := testserver.NewEtcds(t, 3, nil, "--unsafe-no-fsync=false")
	client := dial(t, at(c.Addrs()...))
	locks, err := pawl.Open(t.Context(), storeOf(c.Addrs()))
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	lease, err := locks.Mutex("name", pawl.WithTTL(time.Minute)).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before := content(t, client)
	found := doctortest.Examine(t, storeOf(c.Addrs()))
	doctortest.CleanButTimes(t, found)
	t.Log("\n" + doctortest.Text(found...))
	for _, check := range []string{"cluster", "majority", "members", "endpoints", "alarms", "right to read lines", "right to write records"} {
		doctortest.Expect(t, found, check, "", doctor.OK)
	}
	for _, node := range c.Addrs() {
		for _, check := range []string{"version", "learner", "leader", "quota", "leader changes", "fsync", "clock"} {
			doctortest.Expect(t, found, check, node, doctor.OK)
		}
		doctortest.Measured(t, found, "round trip", node)
		doctortest.Measured(t, found, "disk", node)
	}
	if after := content(t, client); after != before {
		t.Errorf("the examination changed the store:\n%s\n%s", before, after)
	}
	if err := lease.Unlock(); err != nil {
		t.Error(err)
	}
}

// Debian's etcd has the faults of old versions, and is alone.
func TestAnOldVersionAndASingleMemberAreWarnedOf(t *testing.T) {
	t.Parallel()
	server := testserver.Etcd(t)
	found := doctortest.Examine(t, "etcd://"+server.Addr())
	doctortest.Expect(t, found, "version", server.Addr(), doctor.Warning, "3.4.", "can revoke every lease", "install etcd 3.4.31")
	doctortest.Expect(t, found, "members", "", doctor.Warning, "1 that vote", "no lock can be taken", "etcdctl member add")
	doctortest.Expect(t, found, "quota", server.Addr(), doctor.OK, "of 2048.0 MiB")
	doctortest.CleanButTimes(t, found, "version", "members")
}

func TestAMemberThatDoesNotWaitForItsDiskIsFound(t *testing.T) {
	t.Parallel()
	server := testserver.NewEtcd(t)
	store := "etcd://" + server.Addr()
	stillHeld := doctortest.Held(t, store)
	found := doctortest.Examine(t, store)
	f := doctortest.Expect(t, found, "fsync", server.Addr(), doctor.Warning, "does not wait for its disk", "loses power")
	doctortest.CleanButTimes(t, found, "fsync", "members")
	without(t, f, server)
	doctortest.Mended(t, found, doctortest.Examine(t, store), "fsync", server.Addr())
	stillHeld()
}

// fill writes values until some is refused, or the database has reached a size.
func fill(t *testing.T, client *clientv3.Client, endpoint string, until int64) {
	t.Helper()
	value := strings.Repeat("x", 256<<10)
	for range 1000 {
		if _, err := client.Put(t.Context(), "other", value); err != nil {
			return
		}
		status, err := client.Status(t.Context(), endpoint)
		if err != nil {
			t.Fatal(err)
		}
		if status.DbSize >= until {
			return
		}
	}
	t.Fatal("the database does not grow")
}

// mendSpace does what the mend of the finding says.
func mendSpace(t *testing.T, client *clientv3.Client, endpoint string, f doctor.Finding) {
	t.Helper()
	doctortest.Applied(f.Check) // its callers look again
	var revision int64
	if _, err := fmt.Sscanf(f.Mend, "etcdctl compact %d && etcdctl defrag --cluster", &revision); err != nil {
		t.Fatalf("%q: %v", f.Mend, err)
	}
	_, err1 := client.Compact(t.Context(), revision, clientv3.WithCompactPhysical())
	_, err2 := client.Defragment(t.Context(), endpoint)
	var err3 error
	if strings.HasSuffix(f.Mend, " && etcdctl alarm disarm") {
		_, err3 = client.AlarmDisarm(t.Context(), &clientv3.AlarmMember{})
	}
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
}

const smallQuota = 16 << 20

func TestADatabaseNearItsQuotaIsWarnedOf(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB, ...string) *testserver.Server{"3.4": testserver.Etcd, "newer": testserver.NewEtcd} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := start(t, fmt.Sprintf("--quota-backend-bytes=%d", smallQuota))
			client := dial(t, at(server.Addr()))
			fill(t, client, server.Addr(), smallQuota*85/100)
			store := "etcd://" + server.Addr()
			f := doctortest.Expect(t, doctortest.Examine(t, store), "quota", server.Addr(), doctor.Warning, "of 16.0 MiB are used", "no lock can be taken")
			mendSpace(t, client, server.Addr(), f)
			doctortest.Expect(t, doctortest.Examine(t, store), "quota", server.Addr(), doctor.OK)
		})
	}
}

func TestAnAlarmIsFound(t *testing.T) {
	t.Parallel()
	server := testserver.NewEtcd(t, fmt.Sprintf("--quota-backend-bytes=%d", smallQuota))
	client := dial(t, at(server.Addr()))
	fill(t, client, server.Addr(), 1<<40)
	store := "etcd://" + server.Addr()
	found := doctortest.Examine(t, store)
	f := doctortest.Expect(t, found, "alarms", "", doctor.Broken, "NOSPACE at member", "No lock can be taken", "etcdctl alarm disarm")
	doctortest.Expect(t, found, "right to write lines", "", doctor.OK) // an alarm is no missing right
	if locks, err := pawl.Open(t.Context(), store); err != nil {
		t.Error(err)
	} else if _, err := locks.Mutex("name").TryLock(t.Context()); err == nil {
		t.Error("a lock was taken")
	} else if err := locks.Close(); err != nil {
		t.Error(err)
	}
	mendSpace(t, client, server.Addr(), f)
	doctortest.Expect(t, doctortest.Examine(t, store), "alarms", "", doctor.OK, "none")
}

func TestMembersThatAreDownAreFound(t *testing.T) {
	t.Parallel()
	c := testserver.NewEtcds(t, 3, nil)
	store := storeOf(c.Addrs())
	stillHeld := doctortest.Held(t, store)
	c.Members[2].Kill()
	c.Leader(0, 1)
	found := doctortest.Examine(t, store)
	doctortest.Expect(t, found, "member", c.Addrs()[2], doctor.Warning, "does not answer", "systemctl start etcd")
	doctortest.Expect(t, found, "majority", "", doctor.OK)
	doctortest.CleanButTimes(t, found, "member", "fsync")

	found = doctortest.Examine(t, storeOf(c.Addrs()[:2])) // the third one is known from the others
	doctortest.Expect(t, found, "member", c.Addrs()[2], doctor.Warning, "does not answer")

	c.Members[1].Pause() // silent, not gone
	found = doctortest.Examine(t, store)
	doctortest.Expect(t, found, "member", c.Addrs()[1], doctor.Warning, "does not answer", "systemctl restart etcd")
	doctortest.Expect(t, found, "majority", "", doctor.Broken, "Nothing can be locked", "systemctl start etcd")
	for _, i := range []int{1, 2} {
		systemctl(t, doctortest.Find(t, found, "member", c.Addrs()[i]), c.Members[i])
	}
	c.Await()
	after := doctortest.Examine(t, store)
	const meanwhile = "leader changes" // they are counted
	doctortest.Mended(t, found, after, "majority", "", "fsync", meanwhile)
	for _, i := range []int{1, 2} {
		doctortest.Mended(t, found, after, "member", c.Addrs()[i], "fsync", meanwhile)
	}
	stillHeld()
}

func TestAClusterThatIsAwayIsAnError(t *testing.T) {
	t.Parallel()
	store := fmt.Sprintf("etcd://ana:hidden-word@127.0.0.1:%d", testserver.FreePort(t))
	_, err := doctor.Examine(t.Context(), store)
	if !errors.Is(err, driver.ErrUnreachable) || strings.Contains(err.Error(), "hidden-word") {
		t.Errorf("%v", err)
	}
}

func TestAnEvenNumberOfMembersIsWarnedOf(t *testing.T) {
	t.Parallel()
	c := testserver.NewEtcds(t, 2, nil)
	doctortest.Expect(t, doctortest.Examine(t, storeOf(c.Addrs())), "members", "", doctor.Warning, "2 that vote", "No more of them may fail than of 1")
}

func TestAURLWithOneOfSeveralMembersIsWarnedOf(t *testing.T) {
	t.Parallel()
	c := testserver.NewEtcds(t, 3, nil)
	f := doctortest.Expect(t, doctortest.Examine(t, storeOf(c.Addrs()[:1])), "endpoints", "", doctor.Warning, "1 of 3 members", "PAWL_STORE=etcd://")
	doctortest.Expect(t, doctortest.Examine(t, strings.TrimPrefix(f.Mend, "PAWL_STORE=")), "endpoints", "", doctor.OK)
	doctortest.Applied("endpoints")
}

func TestFrequentLeaderChangesAreWarnedOf(t *testing.T) {
	t.Parallel()
	c := testserver.NewEtcds(t, 3, nil)
	store := storeOf(c.Addrs())
	stillHeld := doctortest.Held(t, store)
	for i := range 6 {
		leader := c.Leader()
		next := dial(t, at(c.Addrs()[(leader+1)%3]))
		status, err := next.Status(t.Context(), next.Endpoints()[0])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := dial(t, at(c.Addrs()[leader])).MoveLeader(t.Context(), status.Header.MemberId); err != nil {
			t.Fatalf("move %d: %v", i, err)
		}
	}
	found := doctortest.Examine(t, store)
	f := doctortest.Expect(t, found, "leader changes", c.Addrs()[0], doctor.Warning, " in ", "in doubt")
	doctortest.CleanButTimes(t, found, "leader changes", "fsync")
	line, where, _ := strings.Cut(f.Mend, " # ")
	line, ok := strings.CutPrefix(line, "etcd ")
	if !ok || !strings.HasPrefix(where, "on every member, one after the other") {
		t.Fatalf("%q", f.Mend)
	}
	for _, m := range c.Members {
		m.RestartWith(func(args []string) []string { return append(args, strings.Fields(line)...) })
		c.Await()
	}
	after := doctortest.Examine(t, store)
	for _, node := range c.Addrs() {
		doctortest.Mended(t, found, after, "leader changes", node)
	}
	lease, err := dial(t, at(c.Addrs()...)).Grant(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("TTLs below %ds are rounded up", lease.TTL); !strings.Contains(where, want) {
		t.Errorf("%q, not %q", f.Mend, want)
	}
	stillHeld()
}

func TestTwoClustersInOneURLAreFound(t *testing.T) {
	t.Parallel()
	one, two := testserver.NewEtcd(t), testserver.NewEtcd(t)
	found := doctortest.Examine(t, storeOf([]string{one.Addr(), two.Addr()}))
	f := doctortest.Expect(t, found, "cluster", "", doctor.Broken, one.Addr()+" to cluster", "Two clients can hold")
	doctortest.Expect(t, found, "fsync", two.Addr(), doctor.Warning, "not measured", "is not known", "pawl doctor") // only the first one was made to write
	doctortest.Expect(t, doctortest.Examine(t, strings.TrimPrefix(f.Mend, "PAWL_STORE=")), "cluster", "", doctor.OK)
	doctortest.Applied("cluster")
	locks, err := pawl.Open(t.Context(), storeOf([]string{two.Addr()}))
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	if _, err := locks.Mutex("held").Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	f = doctortest.Expect(t, doctortest.Examine(t, storeOf([]string{one.Addr(), two.Addr()})), "cluster", "", doctor.Broken)
	if want := "PAWL_STORE=" + storeOf([]string{two.Addr()}); f.Mend != want { // the other one has no locks
		t.Errorf("%s, want %s", f.Mend, want)
	}
}

func TestALearnerInTheURLIsWarnedOf(t *testing.T) {
	t.Parallel()
	c := testserver.NewEtcds(t, 1, nil)
	learner := c.AddLearner()
	store := storeOf(append(c.Addrs(), learner.Addr()))
	found := doctortest.Examine(t, store)
	f := doctortest.Expect(t, found, "learner", learner.Addr(), doctor.Warning, "names a learner", "refuses every lock")
	doctortest.Expect(t, found, "members", "", doctor.Warning, "1 that vote")
	doctortest.Applied("learner")
	var id uint64
	if _, err := fmt.Sscanf(f.Mend, "etcdctl member promote %x", &id); err != nil {
		t.Fatalf("%q: %v", f.Mend, err)
	}
	client := dial(t, at(c.Addrs()...))
	for ctx, cancel := context.WithTimeout(t.Context(), time.Minute); ; time.Sleep(50 * time.Millisecond) { // poll: it has to catch up first
		defer cancel()
		_, err := client.MemberPromote(ctx, id)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	found = doctortest.Examine(t, store)
	doctortest.Expect(t, found, "learner", learner.Addr(), doctor.OK)
	doctortest.Expect(t, found, "members", "", doctor.Warning, "2 that vote")
}
