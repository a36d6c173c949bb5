package zkdoctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/internal/doctortest"
)

func TestMain(m *testing.M) { doctortest.Main(m, notApplied) }

// notApplied are the checks whose mends no test applies, and why.
var notApplied = map[string]string{
	"followers": "servers are to be started", "majority": "servers are to be started", "state": "servers are to be started", "rights": "no server serves",
	"servers": "an ensemble is to be made of a single server", "settings": "it is the line of forcesync, which is applied",
}

// dialTo connects to one server or several, as the tests themselves do.
func dialTo(t *testing.T, servers ...string) *zk.Conn {
	t.Helper()
	conn, _, err := zk.Connect(servers, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// content is everything that the servers keep: all nodes with their versions, data and ACLs.
func content(t *testing.T, c *zk.Conn, path string) string {
	t.Helper()
	data, stat, err := c.Get(path)
	if err != nil {
		t.Fatal(err)
	}
	acl, _, err := c.GetACL(path)
	if err != nil {
		t.Fatal(err)
	}
	children, _, err := c.Children(path)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(children)
	text := fmt.Sprintf("%s %q %+v %v\n", path, data, *stat, acl)
	for _, child := range children {
		text += content(t, c, strings.TrimSuffix(path, "/")+"/"+child)
	}
	return text
}
