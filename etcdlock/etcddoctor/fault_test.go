package etcddoctor

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/internal/doctortest"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
)

// The alarm is raised as a member raises it that finds other data than its own.
func TestACorruptMemberIsFound(t *testing.T) {
	t.Parallel()
	c := testserver.NewEtcds(t, 3, nil)
	store := storeOf(c.Addrs())
	stillHeld := doctortest.Held(t, store)
	lead := c.Leader() // the one whose removal ends in an election
	bad, rest := c.Addrs()[lead], slices.Delete(c.Addrs(), lead, lead+1)
	client := dial(t, at(rest[0]))
	status, err := dial(t, at(bad)).Status(t.Context(), bad)
	if err != nil {
		t.Fatal(err)
	}
	alarm := &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: status.Header.MemberId, Alarm: pb.AlarmType_CORRUPT}
	if _, err := pb.NewMaintenanceClient(client.ActiveConnection()).Alarm(t.Context(), alarm); err != nil {
		t.Fatal(err)
	}
	found := doctortest.Examine(t, store)
	f := doctortest.Expect(t, found, "alarms", "", doctor.Broken, fmt.Sprintf("CORRUPT at member %x", alarm.MemberID), "different data", fmt.Sprintf("etcdctl member remove %x", alarm.MemberID))
	etcdctl(t, rest[0], f.Mend)
	after := doctortest.Examine(t, storeOf(rest))
	doctortest.Mended(t, found, after, "alarms", "", "members") // of which there are two now
	stillHeld()
}

// No etcd of a known version reports anything else.
func TestAReportThatIsNoKnownAlarmIsAWarning(t *testing.T) {
	for text, want := range map[string]doctor.Level{"etcdserver: no leader": doctor.OK, "etcdserver: on fire": doctor.Warning} {
		c := &cluster{named: []*member{{status: &clientv3.StatusResponse{Errors: []string{text}}}}}
		if f := alarms(t.Context(), c); f.Level != want {
			t.Errorf("%s: %+v", text, f)
		}
	}
}

// withoutHTTP starts a listener in front of a server that passes on only what is not an
// HTTP/1 request: a member whose pages are elsewhere.
func withoutHTTP(t *testing.T, server string) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	t.Cleanup(func() { listener.Close(); work.Wait() })
	work.Go(func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				from := bufio.NewReader(in)
				if start, err := from.Peek(3); err != nil || string(start) == "GET" {
					in.Close()
					return
				}
				pipe(&begun{in, from}, server)
			})
		}
	})
	return listener.Addr().String()
}

// A begun connection is one of which some was read ahead.
type begun struct {
	net.Conn
	from io.Reader
}

func (b *begun) Read(p []byte) (int, error) { return b.from.Read(p) }

func TestAMemberWithoutMetricsIsWarnedOf(t *testing.T) {
	t.Parallel()
	server := testserver.NewEtcd(t, "--unsafe-no-fsync=false", fmt.Sprintf("--listen-client-http-urls=http://127.0.0.1:%d", testserver.FreePort(t)))
	store := "etcd://" + server.Addr()
	stillHeld := doctortest.Held(t, store)
	found := doctortest.Examine(t, store)
	f := doctortest.Expect(t, found, "metrics", server.Addr(), doctor.Warning, "cannot read /metrics", "were not examined")
	if text := doctortest.Text(found...); strings.Contains(text, "fsync") {
		t.Errorf("a check was made without metrics:\n%s", text)
	}
	doctortest.CleanButTimes(t, found, "metrics", "members")
	without(t, f, server)
	doctortest.Mended(t, found, doctortest.Examine(t, store), "metrics", server.Addr())
	stillHeld()

	address := withoutHTTP(t, testserver.Etcd(t).Addr()) // Debian's tells its quota nowhere else
	found = doctortest.Examine(t, "etcd://"+address)
	doctortest.Expect(t, found, "metrics", address, doctor.Warning, "cannot read /metrics", "were not examined")
	doctortest.Expect(t, found, "quota", address, doctor.Warning, "cannot read the quota", "remove --listen-client-http-urls")
	doctortest.CleanButTimes(t, found, "metrics", "quota", "members", "version")
}

// The metrics are read twice: before and after the member has written.
func TestAMemberWhoseMetricsAreReadOnceIsNotCalledGood(t *testing.T) {
	t.Parallel()
	proxy := faultproxy.New(t, testserver.NewEtcd(t, "--unsafe-no-fsync=false").Addr())
	var asked atomic.Int32
	proxy.OnChunk(func(c faultproxy.Chunk) {
		page := []byte("GET /metrics")
		if c.Dir == faultproxy.ToServer && c.Stage == faultproxy.Arrived && bytes.Contains(c.Data, page) && asked.Add(1) == 2 {
			proxy.SwallowReplies(1000, faultproxy.ThenCut(), faultproxy.Matching(func(request []byte) bool { return bytes.Contains(request, page) }))
		}
	})
	doctortest.Expect(t, doctortest.Examine(t, "etcd://"+proxy.Addr()), "fsync", proxy.Addr(), doctor.Warning, "not measured", "is not known", "pawl doctor")
	if proxy.Swallowed() == 0 {
		t.Error("the second page arrived")
	}
}

// No etcd of a known version has such a page.
func TestAMetricThatIsMissingIsAWarning(t *testing.T) {
	m := &member{endpoint: "http://127.0.0.1:2379", metrics: metrics{}, status: &clientv3.StatusResponse{}}
	for _, check := range []func(context.Context, *member) doctor.Finding{leaderChanges, fsync, disk, quota} {
		f := check(t.Context(), m)
		doctortest.WellFormed(t, []doctor.Finding{f})
		if f.Level != doctor.Warning || !strings.Contains(f.Meaning, "not known") {
			t.Errorf("%+v", f)
		}
	}
	m.metrics["etcd_server_leader_changes_seen_total"] = 3 // without the time of its start, as on some systems
	if f := leaderChanges(t.Context(), m); f.Level != doctor.OK || f.Found != "2 since the member started" {
		t.Errorf("%+v", f)
	}
	m.metrics["etcd_server_leader_changes_seen_total"] = 9
	if f := leaderChanges(t.Context(), m); f.Level != doctor.Warning {
		t.Errorf("%+v", f)
	}
}

// A member that lost its leader still answers for itself.
func TestAMemberThatIsCutOffIsWarnedOf(t *testing.T) {
	t.Parallel()
	network := faultproxy.NewNetwork(t)
	c := testserver.NewEtcds(t, 3, network.Reach)
	store := storeOf(c.Addrs())
	away := (c.Leader() + 1) % 3
	network.Isolate(away)
	var found []doctor.Finding
	for deadline := time.Now().Add(time.Minute); ; { // poll: it gives its leader up first
		found = doctortest.Examine(t, store)
		if strings.Contains(doctortest.Text(found...), "it knows no leader") || time.Now().After(deadline) {
			break
		}
	}
	f := doctortest.Expect(t, found, "leader", c.Addrs()[away], doctor.Warning, "it knows no leader", "cut off", "check the network")
	doctortest.Expect(t, found, "majority", "", doctor.OK)
	out, err := runEtcdctl(t, c.Addrs()[c.Leader()], f.Mend)
	if !strings.Contains(out, c.Addrs()[away]+" is unhealthy") {
		t.Errorf("%q does not tell who is cut off: %v\n%s", f.Mend, err, out)
	}
	network.Heal()
	c.Await()
	doctortest.Mended(t, found, doctortest.Examine(t, store), "leader", c.Addrs()[away])
}
