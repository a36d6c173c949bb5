package etcddoctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/internal/doctortest"
	"github.com/pawl-go/pawl/internal/testserver"
)

func TestMain(m *testing.M) { doctortest.Main(m, notApplied) }

// notApplied are the checks whose mends no test applies, and why.
var notApplied = map[string]string{
	"version": "no etcd between Debian's, which has the faults, and the newest is at hand, and its data can only be moved up version by version",
}

// systemctl does to a member what a mend says of its service: a start does nothing where it
// runs.
func systemctl(t *testing.T, f doctor.Finding, member *testserver.Server) {
	t.Helper()
	switch verb, _, _ := strings.Cut(strings.TrimPrefix(f.Mend, "systemctl "), " etcd"); verb {
	case "start":
		select {
		case <-member.Exited():
			member.Restart()
		default:
		}
	case "restart":
		member.Restart()
	default:
		t.Fatalf("%q", f.Mend)
	}
}

// without starts a member again without the argument that a mend removes.
func without(t *testing.T, f doctor.Finding, member *testserver.Server) {
	t.Helper()
	var flag string
	if _, err := fmt.Sscanf(f.Mend, "remove %s from the member's command line", &flag); err != nil {
		t.Fatalf("%q: %v", f.Mend, err)
	}
	member.RestartWith(func(args []string) []string {
		return slices.DeleteFunc(args, func(arg string) bool { name, _, _ := strings.Cut(arg, "="); return name == flag })
	})
}

func dial(t *testing.T, config clientv3.Config) *clientv3.Client {
	t.Helper()
	config.Logger, config.DialTimeout = zap.NewNop(), 10*time.Second
	client, err := clientv3.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func at(addresses ...string) clientv3.Config { return clientv3.Config{Endpoints: addresses} }

// content is everything that a cluster keeps: keys with their revisions, leases, alarms,
// members and users.
func content(t *testing.T, client *clientv3.Client) string {
	t.Helper()
	keys, err := client.Get(t.Context(), "\x00", clientv3.WithFromKey())
	if err != nil {
		t.Fatal(err)
	}
	leases, err := client.Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	raised, err := client.AlarmList(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	members, err := client.MemberList(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	users, err := client.UserList(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(keys.Header.Revision, keys.Kvs, leases.Leases, raised.Alarms, members.Members, users.Users)
}
