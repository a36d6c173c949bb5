package teststores

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/ncruces/go-sqlite3"
)

// converse sends a line to a server and returns the text after a word of its answer, up to
// one of the delimiters.
func converse(t testing.TB, addr, line, word, delimiters string) string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(c, line); err != nil {
		t.Fatal(err)
	}
	for r := bufio.NewReader(c); ; {
		answer, err := r.ReadString('\n')
		if _, rest, ok := strings.Cut(answer, word); ok {
			rest = strings.TrimSpace(rest)
			if i := strings.IndexAny(rest, delimiters); i >= 0 {
				rest = rest[:i]
			}
			return rest
		}
		if err != nil {
			t.Fatalf("%s says nothing of %q: %v", addr, word, err)
		}
	}
}

func redisVersion(t testing.TB, addr, field string) string {
	return converse(t, addr, "INFO server\r\n", field+":", "\r\n")
}

func zookeeperVersion(t testing.TB, addr string) string {
	return converse(t, addr, "srvr", "Zookeeper version:", "-,")
}

func natsVersion(t testing.TB, addr string) string {
	return converse(t, addr, "", `"version":"`, `"`)
}

func etcdVersion(t testing.TB, addr string) string {
	r, err := http.Get("http://" + addr + "/version")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var v struct{ Etcdserver string }
	if err := json.NewDecoder(r.Body).Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v.Etcdserver
}

func postgresVersion(t testing.TB, url string) (version string) {
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if err := c.QueryRow(t.Context(), "SHOW server_version").Scan(&version); err != nil {
		t.Fatal(err)
	}
	return strings.Fields(version)[0]
}

// mysqlVersion reads the version that the server greets with.
func mysqlVersion(t testing.TB, addr string) string {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	r := bufio.NewReader(c)
	if _, err := r.Discard(5); err != nil { // length, number, protocol
		t.Fatal(err)
	}
	v, err := r.ReadString(0)
	if err != nil {
		t.Fatal(err)
	}
	v = strings.TrimPrefix(strings.TrimSuffix(v, "\x00"), "5.5.5-") // which MariaDB puts in front
	v, _, _ = strings.Cut(v, "-")
	return v
}

func sqliteVersion() string {
	db, err := sqlite3.Open(":memory:")
	if err != nil {
		return fmt.Sprint(err)
	}
	defer db.Close()
	s, _, err := db.Prepare("SELECT sqlite_version()")
	if err != nil {
		return fmt.Sprint(err)
	}
	defer s.Close()
	s.Step()
	return s.ColumnText(0)
}
