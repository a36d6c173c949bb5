package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
)

func TestAnInvalidURLIsRefused(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"etcd:":                                    "no host",
		"etcd:///path":                             "no host",
		"etcd://a,,b":                              "empty",
		"etcd://a:":                                "empty",
		"etcd://a:1:2":                             "not host:port",
		"etcd://a/x#y":                             "%23",
		"etcd://a/x?prefix=y":                      "say the same",
		"etcd://a?ttl2=1s":                         "tls, tls-ca, tls-cert, tls-key, tls-name, prefix",
		"etcd://a?tls=maybe":                       "skip-verify",
		"etcd://a?tls-ca=file":                     "tls=yes",
		"etcds://a?cert=file":                      "go together",
		"etcds://a?ca=/there/is/none":              "parameter tls-ca: no such file",
		"etcd://a/x/%40line":                       "@line",
		"etcd://a/x/@line":                         "%40 for @",
		"etcd://ana@a":                             "password",
		"etcd://ana:hidden-word@a?oops=1":          "oops",
		"etcd://ana:hidden-word@a?tls=hidden-word": "skip-verify",
	} {
		c, err := pawl.Open(t.Context(), text)
		if err == nil {
			c.Close()
			t.Errorf("%s: opened", text)
			continue
		}
		if !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, which does not say %q", text, err, says)
		}
		if strings.Contains(err.Error(), "hidden-word") {
			t.Errorf("%s: the error shows the password: %v", text, err)
		}
		if !strings.Contains(text, "/there/is/none") {
			expect(t, text, err, pawl.ErrInvalid)
		}
	}
}

func TestABadOptionIsAnErrorOfEveryCall(t *testing.T) {
	t.Parallel()
	e := New(dial(t, []string{"localhost"}), WithPrefix("@line"))
	_, open := e.Open(t.Context(), driver.SessionOptions{ID: newID(), TTL: longTTL})
	_, line := e.Line(t.Context(), "name")
	_, _, load := e.Load(t.Context(), "key")
	for what, err := range map[string]error{"Open": open, "Line": line, "Load": load} {
		if err == nil || !strings.Contains(err.Error(), "WithPrefix") {
			t.Errorf("%s with a prefix that lies in another: %v", what, err)
		}
	}
	if err := e.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func TestAWrongAddressFailsInTime(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and sends nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	for name, text := range map[string]string{
		"nothing listens":             fmt.Sprintf("etcd://127.0.0.1:%d", testserver.FreePort(t)),
		"nothing listens, a password": fmt.Sprintf("etcd://ana:hidden-word@127.0.0.1:%d", testserver.FreePort(t)),
		"silence":                     "etcd://" + silent.Addr().String(),
		"silence, a password":         "etcd://ana:hidden-word@" + silent.Addr().String(),
		"no TLS there":                "etcds://" + silent.Addr().String(),
		"no such host":                "etcd://no-such-host.invalid:2379",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			from := time.Now()
			c, err := pawl.Open(ctx, text)
			if err == nil {
				defer c.Close()
				_, err = c.Mutex("name").Lock(ctx)
			}
			if took := time.Since(from); took > 2*time.Second+soon/2 {
				t.Errorf("failed only after %v", took)
			}
			if !errors.Is(err, pawl.ErrUnreachable) && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v, not ErrUnreachable and not ctx's error", err)
			}
			if err != nil && strings.Contains(err.Error(), "hidden-word") {
				t.Errorf("the error shows the password: %v", err)
			}
		})
	}
}

// permit gives user ana read and write permission on team/, and enables authentication.
func permit(t *testing.T, server *testserver.Server) {
	t.Helper()
	admin := dial(t, []string{server.Addr()})
	ctx := t.Context()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(admin.UserAdd(ctx, "root", "root-word"))
	must(admin.UserGrantRole(ctx, "root", "root"))
	must(admin.RoleAdd(ctx, "team"))
	must(admin.RoleGrantPermission(ctx, "team", "team/", clientv3.GetPrefixRangeEnd("team/"), clientv3.PermissionType(clientv3.PermReadWrite)))
	must(admin.UserAdd(ctx, "ana", "hidden-word"))
	must(admin.UserGrantRole(ctx, "ana", "team"))
	must(admin.AuthEnable(ctx))
}

// TestPermissionsAreRespected also shows which permissions are enough.
func TestPermissionsAreRespected(t *testing.T) {
	t.Parallel()
	server := testserver.Etcd(t)
	permit(t, server)
	ctx := t.Context()
	store := func(user, prefix string) string { return "etcd://" + user + "@" + server.Addr() + "/" + prefix }

	renewed := make(renewals, 1)
	c, err := pawl.Open(ctx, store("ana:hidden-word", "team"), pawl.WithTTL(15*time.Second), pawl.WithObserver(renewed))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	l := lock(t, c.Mutex("name"))
	waits := begin(t, func() (*pawl.Lease, error) { return c.Mutex("name", pawl.WithFair()).Lock(t.Context()) })
	select {
	case <-l.Context().Done():
		t.Fatalf("lost with all permissions it needs: %v", l.Err())
	case <-renewed: // beats work with them; waits and watches are tested below
	}
	if err := l.Unlock(); err != nil {
		t.Error(err)
	}
	next, err := waits.within(t, soon, "the turn of a waiter under a password")
	if err != nil {
		t.Fatal(err)
	}
	if err := next.Unlock(); err != nil {
		t.Error(err)
	}
	r, err := c.Records()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Store(ctx, "key", []byte("value"), 0, time.Minute); err != nil {
		t.Error(err)
	}

	outside, err := pawl.Open(ctx, store("ana:hidden-word", "other"), pawl.WithTTL(3*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer outside.Close()
	_, err = outside.Mutex("name").Lock(ctx)
	expect(t, "Lock without permission", err, pawl.ErrDenied)
	_, err = outside.Mutex("name").TryLock(ctx)
	expect(t, "TryLock without permission", err, pawl.ErrDenied)
	for _, user := range []string{"ana:wrong-word", "nobody:hidden-word"} {
		_, err = pawl.Open(ctx, store(user, "team"))
		expect(t, "a wrong password", err, pawl.ErrDenied)
		if err != nil && strings.Contains(err.Error(), "-word") {
			t.Errorf("the error shows the password: %v", err)
		}
	}
	bare := pawl.New(New(dial(t, []string{server.Addr()})))
	defer bare.Close()
	_, err = bare.Mutex("name").TryLock(ctx)
	expect(t, "TryLock without a user", err, pawl.ErrDenied)

	root, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Addr()}, Username: "root", Password: "root-word", Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	got, err := root.Get(ctx, "", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil || len(got.Kvs) != 1 || !strings.HasPrefix(string(got.Kvs[0].Key), "team/@record/") {
		t.Errorf("left behind: %v, %v", got.Kvs, err)
	}
}

// renewals receives when a lease was renewed.
type renewals chan struct{}

func (r renewals) Observe(e pawl.Event) {
	if e.Kind == pawl.Renewed {
		select {
		case r <- struct{}{}:
		default: // one is pending
		}
	}
}

func TestTLSWithAClientCertificate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := testserver.Certificate(t, dir, "server", "127.0.0.1")
	ca := cert
	server := testserver.Start(t, testserver.Spec{
		Name: "etcd", Package: "etcd-server", Binary: testserver.File{"etcd"}, Ports: 2,
		Args: func(s *testserver.Server) []string {
			at, peer := "https://"+s.Addr(), fmt.Sprintf("http://127.0.0.1:%d", s.Ports()[1])
			return []string{"--name", "one", "--data-dir", filepath.Join(s.Dir(), "data"),
				"--listen-client-urls", at, "--advertise-client-urls", at,
				"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "one=" + peer,
				"--cert-file", cert, "--key-file", key, "--trusted-ca-file", ca, "--client-cert-auth"}
		},
	})
	q := url.Values{"tls-ca": {ca}, "tls-cert": {cert}, "tls-key": {key}}
	c, err := pawl.Open(t.Context(), "etcds://"+server.Addr()+"?"+q.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := lock(t, c.Mutex("name")).Unlock(); err != nil {
		t.Error(err)
	}
	for name, store := range map[string]string{
		"an unknown authority": "etcds://" + server.Addr(),
		"no certificate":       "etcds://" + server.Addr() + "?ca=" + url.QueryEscape(ca),
		"no TLS":               "etcd://" + server.Addr(),
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		c, err := pawl.Open(ctx, store)
		if err == nil {
			_, err = c.Mutex("name").TryLock(ctx)
			c.Close()
		}
		if !errors.Is(err, pawl.ErrUnreachable) && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}
