//go:build unix

package main

import (
	"os"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/pawl-go/pawl/internal/testserver"
)

// An etcd whose database has reached its quota answers, and refuses every write until
// an operator has made room: trying again later, as after 69, does not help.
func TestAnEtcdWithoutSpaceRefuses(t *testing.T) {
	t.Parallel()
	addr := testserver.Etcd(t, "--quota-backend-bytes=16777216").Addr()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for n := 0; err == nil; n++ {
		if n == 1000 {
			t.Fatal("the database does not fill")
		}
		_, err = c.Put(t.Context(), "other", strings.Repeat("x", 256<<10))
	}
	env := newTestEnv(t).with("PAWL_STORE=etcd://" + addr)
	for _, verb := range []string{"run", "once"} {
		if p := env.run("pawl", verb, "x", "--", "touch", "ran"); p.code != exitDenied || !strings.Contains(p.err, "space exceeded") {
			t.Errorf("%s: exit code %d, want %d: %s", verb, p.code, exitDenied, p.err)
		}
	}
	if _, err := os.Stat(env.path("ran")); err == nil {
		t.Error("the command has run")
	}
}
