package testserver

import (
	"bufio"
	"encoding/binary"
	"io"
	"net/http"
	"strings"
	"testing"
)

// startIfInstalled starts a server that no package of this module needs yet, so
// that CI may lack it. It becomes mandatory with the first engine that is tested on
// it: that engine's tests call Redis, PostgreSQL and so on, which fail in CI if the
// server is missing.
func startIfInstalled(t *testing.T, spec Spec) *Server {
	t.Helper()
	if _, _, err := spec.locate(); err != nil {
		t.Skipf("optional server: %v", err)
	}
	return Start(t, spec)
}

// beforeAndAfterKill runs speak, kills and restarts the server, and runs speak
// again.
func beforeAndAfterKill(t *testing.T, s *Server, speak func(*connection)) {
	t.Helper()
	speak(connect(t, s.Addr()))
	s.Kill()
	s.Restart()
	speak(connect(t, s.Addr()))
}

func TestRedisAnswersPING(t *testing.T) {
	t.Parallel()
	s := startIfInstalled(t, redis())
	beforeAndAfterKill(t, s, func(c *connection) {
		io.WriteString(c, "PING\r\n")
		if answer, err := c.r.ReadString('\n'); err != nil || answer != "+PONG\r\n" {
			t.Errorf("%q, %v", answer, err)
		}
	})
}

func TestRedisKeepsDataOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"by default": {nil, "$-1\r\n"},
		"appendonly": {[]string{"--appendonly", "yes", "--appendfsync", "always"}, "$1\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startIfInstalled(t, redis(test.args...))
			c := connect(t, s.Addr())
			io.WriteString(c, "SET k v\r\n")
			if answer, err := c.r.ReadString('\n'); err != nil || answer != "+OK\r\n" {
				t.Fatalf("SET: %q, %v", answer, err)
			}
			s.Kill()
			s.Restart()
			c = connect(t, s.Addr())
			io.WriteString(c, "GET k\r\n")
			if answer, err := c.r.ReadString('\n'); err != nil || answer != test.want {
				t.Errorf("GET: %q, %v; want %q", answer, err, test.want)
			}
		})
	}
}

func TestPostgreSQLAnswersAnSSLRequest(t *testing.T) {
	t.Parallel()
	s := startIfInstalled(t, postgreSQL())
	beforeAndAfterKill(t, s, func(c *connection) {
		request := binary.BigEndian.AppendUint32(nil, 8)
		request = binary.BigEndian.AppendUint32(request, 80877103)
		c.Write(request)
		if answer, err := c.r.ReadByte(); err != nil || answer != 'N' {
			t.Errorf("%q, %v; want N, as there is no certificate", answer, err)
		}
	})
}

func TestMariaDBGreets(t *testing.T) {
	t.Parallel()
	s := startIfInstalled(t, mariaDB())
	beforeAndAfterKill(t, s, func(c *connection) {
		var head [5]byte
		if _, err := io.ReadFull(c.r, head[:]); err != nil || head[4] != 10 {
			t.Fatalf("% x, %v; want protocol 10", head, err)
		}
		version, err := c.r.ReadString(0)
		if err != nil || !strings.Contains(version, "MariaDB") {
			t.Errorf("version %q, %v", version, err)
		}
	})
}

func TestEtcdIsHealthy(t *testing.T) {
	t.Parallel()
	s := startIfInstalled(t, etcd())
	beforeAndAfterKill(t, s, func(c *connection) {
		io.WriteString(c, "GET /health HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\n\r\n")
		response, err := http.ReadResponse(bufio.NewReader(c.r), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil || !strings.Contains(string(body), `"true"`) {
			t.Errorf("%s %s, %v", response.Status, body, err)
		}
	})
}

func TestZooKeeperAnswersSrvr(t *testing.T) {
	t.Parallel()
	s := startIfInstalled(t, zooKeeper())
	beforeAndAfterKill(t, s, func(c *connection) {
		io.WriteString(c, "srvr")
		answer, err := io.ReadAll(c.r)
		if err != nil || !strings.Contains(string(answer), "Mode: standalone") {
			t.Errorf("%q, %v", answer, err)
		}
	})
}

func TestNATSGreetsWithJetStream(t *testing.T) {
	t.Parallel()
	beforeAndAfterKill(t, NATS(t), func(c *connection) {
		greeting, err := c.r.ReadString('\n')
		if err != nil || !strings.HasPrefix(greeting, "INFO {") || !strings.Contains(greeting, `"jetstream":true`) {
			t.Errorf("%q, %v", greeting, err)
		}
	})
}
