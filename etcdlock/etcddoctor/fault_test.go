package etcddoctor

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
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
	server := testserver.NewEtcd(t)
	client := dial(t, at(server.Addr()))
	status, err := client.Status(t.Context(), server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	alarm := &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: status.Header.MemberId, Alarm: pb.AlarmType_CORRUPT}
	if _, err := pb.NewMaintenanceClient(client.ActiveConnection()).Alarm(t.Context(), alarm); err != nil {
		t.Fatal(err)
	}
	store := "etcd://" + server.Addr()
	doctortest.Expect(t, doctortest.Examine(t, store), "alarms", "", doctor.Broken, fmt.Sprintf("CORRUPT at member %x", alarm.MemberID), "different data", fmt.Sprintf("etcdctl member remove %x", alarm.MemberID))
	if _, err := client.AlarmDisarm(t.Context(), &clientv3.AlarmMember{}); err != nil {
		t.Fatal(err)
	}
	doctortest.Expect(t, doctortest.Examine(t, store), "alarms", "", doctor.OK)
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
	for name, start := range map[string]func(testing.TB, ...string) *testserver.Server{"3.4": testserver.Etcd, "newer": testserver.NewEtcd} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := withoutHTTP(t, start(t).Addr())
			found := doctortest.Examine(t, "etcd://"+address)
			doctortest.Expect(t, found, "metrics", address, doctor.Warning, "cannot read /metrics", "were not examined", "remove --listen-client-http-urls")
			if text := doctortest.Text(found...); strings.Contains(text, "fsync") {
				t.Errorf("a check was made without metrics:\n%s", text)
			}
			if name == "3.4" { // the quota is nowhere else
				doctortest.Expect(t, found, "quota", address, doctor.Warning, "cannot read the quota", "remove --listen-client-http-urls")
			}
			doctortest.CleanButTimes(t, found, "metrics", "quota", "members", "version")
		})
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
	doctortest.Expect(t, found, "leader", c.Addrs()[away], doctor.Warning, "it knows no leader", "cut off", "etcdctl endpoint health")
	doctortest.Expect(t, found, "majority", "", doctor.OK)
}
