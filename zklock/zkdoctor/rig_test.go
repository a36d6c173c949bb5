package zkdoctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/internal/doctortest"
	"github.com/pawl-go/pawl/internal/testserver"
)

func TestMain(m *testing.M) { doctortest.Main(m, nil) }

// longSessions is the line of a server's file that held needs.
const longSessions = "maxSessionTimeout=1000000"

// zkServer does to servers that were killed or paused what mends say: a start does nothing
// where one runs.
func zkServer(t *testing.T, f doctor.Finding, servers ...*testserver.Server) {
	t.Helper()
	for _, s := range servers {
		switch verb, _, _ := strings.Cut(strings.TrimPrefix(f.Mend, "zkServer.sh "), " #"); verb {
		case "start":
			select {
			case <-s.Exited():
				s.Restart()
			default:
			}
		case "restart":
			s.Restart()
		default:
			t.Fatalf("%q", f.Mend)
		}
	}
}

// configure adds lines to the file of a server, which reads it when it starts again.
func configure(t *testing.T, server *testserver.Server, lines ...string) {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(server.Dir(), "zoo.cfg"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err1 := file.WriteString(strings.Join(lines, "\n") + "\n")
	if err := errors.Join(err1, file.Close()); err != nil {
		t.Fatal(err)
	}
}

// serverLine returns line N of the servers of an ensemble, made of a mend that has one with
// the name of a host.
func serverLine(t *testing.T, f doctor.Finding, n int) string {
	t.Helper()
	if !regexp.MustCompile(`^server\.\d=HOST\d?:2888:3888 #`).MatchString(f.Mend) {
		t.Fatalf("%q", f.Mend)
	}
	return fmt.Sprintf("server.%d=127.0.0.1:%d:%d", n, testserver.FreePort(t), testserver.FreePort(t))
}

// serverLines returns the lines of servers in the file of one.
func serverLines(t *testing.T, server *testserver.Server) []string {
	t.Helper()
	file, err := os.ReadFile(filepath.Join(server.Dir(), "zoo.cfg"))
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`(?m)^server\..*$`).FindAllString(string(file), -1)
}

// awaitServing waits until servers serve.
func awaitServing(t *testing.T, servers ...*testserver.Server) {
	t.Helper()
	for _, s := range servers {
		doctortest.Eventually(t, s.Addr()+" serves", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), askLimit)
			defer cancel()
			text, err := (&server{address: s.Addr()}).word(ctx, "srvr")
			return err == nil && parse(text, ": ")["Mode"] != ""
		})
	}
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
