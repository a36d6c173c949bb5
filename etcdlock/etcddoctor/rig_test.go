package etcddoctor

import (
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/pawl-go/pawl/internal/doctortest"
)

func TestMain(m *testing.M) { doctortest.Main(m, notApplied) }

// notApplied are the checks whose mends no test applies, and why.
var notApplied = map[string]string{
	"fsync": "it is the command line of the server", "metrics": "it is the command line of the server", "leader changes": "it is the command line of every member",
	"leader": "a network is to be mended", "majority": "members are to be started", "member": "members are to be started", "version": "another version is to be installed",
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
