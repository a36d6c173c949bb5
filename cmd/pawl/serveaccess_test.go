//go:build linux

package main

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/pawl-go/pawl/internal/testserver"
)

func TestServeRefusesWhatItCannotDo(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.hold("x") // so that there is a store
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	redis := testserver.Redis(t, "--requirepass", "hunter2")
	env.write("secret", "opensesame\n")
	env.write("empty", "\n")
	env.write("two", "one\ntwo\n")
	if p := env.run("sh", "-c", "cp secret open && chmod 644 open"); p.code != 0 {
		t.Fatal(p)
	}
	cert, key := testserver.Certificate(t, env.dir, "server", "127.0.0.1")
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{64, "give --password-file", []string{"--listen", "0.0.0.0:0"}},
		{64, "give --password-file", []string{"--listen", ":0"}},
		{64, "give --password-file", []string{"--listen", "0.0.0.0:0", "--tls-cert", cert, "--tls-key", key}},
		{64, "write HOST:PORT", []string{"--listen", "nonsense"}},
		{64, "write HOST:PORT", []string{"--listen", "127.0.0.1:99999"}},
		{64, "belong together", []string{"--tls-cert", cert}},
		{64, "belong together", []string{"--tls-key", key}},
		{64, "needs --tls-cert", []string{"--client-ca", cert}},
		{64, "PATTERN=CLASS", []string{"--class", "orders"}},
		{64, "PATTERN=CLASS", []string{"--class", "=orders"}},
		{64, "PATTERN=CLASS", []string{"--class", "orders="}},
		{64, "not valid UTF-8", []string{"--class", "orders=\xff"}},
		{64, "syntax error in pattern", []string{"--class", "[=orders"}},
		{64, "every user of this machine", []string{"--allow-unlock"}},
		{64, "write a name alone", []string{"--allow-host", "https://locks.example.com:443"}},
		{64, "write a name alone", []string{"--allow-host", "locks.example.com:443"}},
		{64, "write a name alone", []string{"--allow-host", "locks.example.com/pawl"}},
		{64, "write a name alone", []string{"--allow-host", ""}},
		{64, "unknown", []string{"--no-such-flag"}},
		{64, "unknown command", []string{"extra"}},
		{1, "address already in use", []string{"--listen", taken.Addr().String()}},
		{78, "no such file", []string{"--password-file", "missing"}},
		{78, "chmod 600 open", []string{"--password-file", "open"}},
		{78, "one line", []string{"--password-file", "empty"}},
		{78, "one line", []string{"--password-file", "two"}},
		{78, "--tls-cert", []string{"--tls-cert", key, "--tls-key", key}},
		{78, "no certificate in it", []string{"--tls-cert", cert, "--tls-key", key, "--client-ca", key}},
		{78, "unknown scheme", []string{"-s", "nonsense://x"}},
		{78, "colour", []string{"-s", "redis://127.0.0.1?colour=red"}},
		{77, "", []string{"-s", "redis://" + redis.Addr()}},
		{77, "", []string{"-s", "redis://:wrong@" + redis.Addr()}},
	} {
		listen := "127.0.0.1:0"
		if c.code == 64 { // before it listens: where nobody can, none begins to serve
			listen = taken.Addr().String()
		}
		p := env.run("pawl", append([]string{"serve", "--listen", listen}, c.args...)...)
		said := regexp.MustCompile(`(?m)^pawl: warning: .*\n`).ReplaceAllString(p.err, "")
		if p.code != c.code || !strings.Contains(said, c.says) || p.out != "" || strings.Count(said, "\n") != 1 || strings.Contains(p.err, "opensesame") {
			t.Errorf("%q: %+v, want %d and %q in one line", c.args, p, c.code, c.says)
		}
	}
}

func TestServeOnOtherAddressesNeedsAPassword(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.hold("x")
	env.write("secret", "opensesame\n")
	s := env.serve("--listen", "0.0.0.0:0", "--password-file", "secret")
	if !strings.Contains(s.stderr(), "warning: the password crosses the network unencrypted") {
		t.Errorf("no warning: %s", s.stderr())
	}
	if !strings.Contains(s.stderr(), "and all other addresses of this machine") {
		t.Errorf("said %s", s.stderr())
	}
	for _, path := range []string{"/", "/metrics", "/api/v1/locks", "/tree"} {
		if code, body := s.get(path); code != 401 || strings.Contains(body, "opensesame") {
			t.Errorf("%s without a password: %d %s", path, code, body)
		}
	}
	if code, body := s.get("/healthz"); code != 200 || body != "store up\n" {
		t.Errorf("health: %d %q", code, body)
	}
	s.url = strings.Replace(s.url, "http://", "http://ana:opensesame@", 1)
	if code, _ := s.get("/"); code != 200 {
		t.Errorf("with the password: %d", code)
	}
	s.url = strings.Replace(s.url, "opensesame", "opensesam", 1)
	if code, _ := s.get("/"); code != 401 {
		t.Errorf("with a wrong password: %d", code)
	}
}

func TestServeKnowsClientsByTheirCertificates(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.hold("x")
	cert, key := testserver.Certificate(t, env.dir, "server", "127.0.0.1")
	ana, anaKey := testserver.Certificate(t, env.dir, "ana", "127.0.0.1")
	eve, eveKey := testserver.Certificate(t, env.dir, "eve", "127.0.0.1")
	s := env.serve("--listen", "0.0.0.0:0", "--tls-cert", cert, "--tls-key", key, "--client-ca", ana, "--allow-unlock")
	if !strings.HasPrefix(s.url, "https://127.0.0.1:") || strings.Contains(s.stderr(), "warning") {
		t.Fatalf("said %s", s.stderr())
	}
	pem, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	client := func(files ...string) *http.Client {
		config := &tls.Config{RootCAs: x509.NewCertPool()}
		config.RootCAs.AppendCertsFromPEM(pem)
		if len(files) > 0 {
			pair, err := tls.LoadX509KeyPair(files[0], files[1])
			if err != nil {
				t.Fatal(err)
			}
			config.Certificates = []tls.Certificate{pair}
		}
		return &http.Client{Timeout: testTimeout, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	}
	for name, c := range map[string]*http.Client{"no certificate": client(), "one of somebody else": client(eve, eveKey)} {
		if resp, err := c.Get(s.url + "/"); err == nil {
			resp.Body.Close()
			t.Errorf("%s: %s", name, resp.Status)
		}
	}
	s.client = client(ana, anaKey)
	if code, _ := s.get("/"); code != 200 {
		t.Errorf("with a certificate: %d", code)
	}
	resp, err := s.client.PostForm(s.url+"/unlock", url.Values{"name": {"x"}, "token": {"256"}})
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if !eventually(func() bool { return strings.Contains(s.stderr(), ` user="ana" refused="x" token=256 `) }) {
		t.Errorf("%s\n%s", resp.Status, s.stderr())
	}
}

func TestServeTakesFurtherNames(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.hold("x")
	s := env.serve("--allow-host", "locks.example.com")
	for host, want := range map[string]int{"locks.example.com": 200, "locks.example.com:8443": 200, "other.example.com": 421} {
		r, _ := http.NewRequest("GET", s.url+"/", nil)
		r.Host = host
		resp, err := s.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %s", host, resp.Status)
		}
	}
}

func TestServeReadsAPasswordThatRootGivesItsGroup(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.hold("x")
	env.write("secret", "opensesame\n")
	for mode, want := range map[os.FileMode]bool{0o400: true, 0o600: true, 0o440: os.Geteuid() == 0, 0o640: os.Geteuid() == 0, 0o460: false, 0o444: false, 0o604: false} {
		if err := os.Chmod(env.path("secret"), mode); err != nil {
			t.Fatal(err)
		}
		if _, err := readPassword(env.path("secret")); (err == nil) != want {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
	if os.Geteuid() != 0 {
		return
	}
	if err := os.Chmod(env.path("secret"), 0o440); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(env.path("secret"), 1, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := readPassword(env.path("secret")); err == nil {
		t.Error("a file that another user gives to a group was read")
	}
}

// A password is rotated in the store and in the file; HUP, or the store's refusal, makes
// serve read the file again.
func TestServeReadsTheStoreFileAgain(t *testing.T) {
	t.Parallel()
	for _, hup := range []bool{true, false} {
		redis := testserver.Redis(t, "--requirepass", "before")
		env := newTestEnv(t)
		write := func(password string) { env.write("store", "redis://:"+password+"@"+redis.Addr()+"\n") }
		write("before")
		env = env.with("PAWL_STORE=", "PAWL_STORE_FILE="+env.path("store"))
		env.hold("x")
		s := env.serve()
		s.until("/", `data-name="x"`)
		write("after")
		if hup {
			if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			if !eventually(func() bool { return strings.Contains(s.stderr(), "read again") }) {
				t.Fatalf("HUP: %s", s.stderr())
			}
		}
		redisDo(t, redis.Addr(), "-a", "before", "CONFIG", "SET", "requirepass", "after")
		redisDo(t, redis.Addr(), "-a", "after", "CLIENT", "KILL", "TYPE", "normal")
		redisDo(t, redis.Addr(), "-a", "after", "SET", "pawl:later", "of another program")
		s.until("/", `data-name="later"`)
	}
}
