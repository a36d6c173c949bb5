package etcddoctor

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/internal/doctortest"
	"github.com/pawl-go/pawl/internal/testserver"
)

// etcdctl runs a line as an operator does, and returns what it prints. A cluster changes its
// members only when all have been connected for some seconds.
func etcdctl(t *testing.T, endpoint, line string) (out string) {
	t.Helper()
	doctortest.Eventually(t, "healthy", func() bool {
		var err error
		out, err = runEtcdctl(t, endpoint, line)
		if err != nil && !strings.Contains(out, "unhealthy cluster") {
			t.Fatalf("%s: %v %s", line, err, out)
		}
		return err == nil
	})
	return out
}

func runEtcdctl(t *testing.T, endpoint, line string) (out string, err error) {
	t.Helper()
	if _, err := exec.LookPath("etcdctl"); err != nil {
		t.Skip(err)
	}
	cmd := exec.Command("sh", "-c", line)
	cmd.Env = append(os.Environ(), "ETCDCTL_API=3", "ETCDCTL_ENDPOINTS="+endpoint)
	b, err := cmd.CombinedOutput()
	return string(b), err
}

var memberAdded = regexp.MustCompile(`Member\s+([0-9a-f]+) added`)

// A cluster grows from one member to three by what doctor says, and a lock is held all the
// while.
func TestMembersAreAddedWithoutTheLossOfTheMajority(t *testing.T) {
	t.Parallel()
	c := testserver.NewEtcds(t, 1, nil, "--unsafe-no-fsync=false")
	store := storeOf(c.Addrs())
	locks, err := pawl.Open(t.Context(), store, pawl.WithTTL(5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	lease, err := locks.Mutex("held").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before := doctortest.Examine(t, store)
	for n := 1; n < 3; n++ {
		f := doctortest.Expect(t, doctortest.Examine(t, store), "members", "", doctor.Warning, fmt.Sprintf("%d that vote", n))
		port := testserver.FreePort(t)
		said := etcdctl(t, c.Addrs()[0], strings.NewReplacer("NAME", "added", "HOST:2380", fmt.Sprintf("127.0.0.1:%d", port)).Replace(f.Mend))
		id := memberAdded.FindStringSubmatch(said)
		if id == nil {
			t.Fatal(said)
		}
		if err := lease.Confirm(t.Context()); err != nil { // before the member is started
			t.Fatalf("after %q: %v", f.Mend, err)
		}
		c.StartAdded(port)
		doctortest.Eventually(t, "in step with the leader", func() bool {
			_, err := dial(t, at(c.Addrs()...)).MemberPromote(t.Context(), parseID(t, id[1]))
			return err == nil
		})
	}
	doctortest.Mended(t, before, doctortest.Examine(t, store), "members", "", "endpoints") // of which the URL names one still
	if err := lease.Unlock(); err != nil {
		t.Error(err)
	}
}

func parseID(t *testing.T, hex string) (id uint64) {
	t.Helper()
	if _, err := fmt.Sscanf(hex, "%x", &id); err != nil {
		t.Fatal(err)
	}
	return id
}
