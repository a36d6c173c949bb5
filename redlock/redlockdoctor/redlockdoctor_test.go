package redlockdoctor_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/doctortest"
	"github.com/pawl-go/pawl/internal/testserver"
	_ "github.com/pawl-go/pawl/redlock"
	_ "github.com/pawl-go/pawl/redlock/redlockdoctor"
)

// maxTTL is in every URL here; a restarted server does not vote for as long.
const maxTTL = 6 * time.Second

// A trio is three servers, each with an address of its own.
type trio struct {
	t       *testing.T
	servers []*testserver.Server
	hosts   []string
	query   string
}

// newTrio starts three servers on three loopback addresses: servers with the same are a
// finding. It returns when they have run for max-ttl.
func newTrio(t *testing.T, args ...string) *trio {
	t.Helper()
	f := &trio{t: t, query: "?max-ttl=" + maxTTL.String()}
	for i := range 3 {
		own := fmt.Sprintf("127.0.0.%d", i+1)
		settings := append([]string{"--appendonly", "yes"}, args...)
		if i > 0 { // 127.0.0.1 is asked whether the server is up
			settings = append(settings, "--bind", "127.0.0.1", own)
		}
		s := testserver.Redis(t, settings...)
		f.servers = append(f.servers, s)
		f.hosts = append(f.hosts, fmt.Sprintf("%s:%d", own, s.Port()))
	}
	f.awaitAge()
	return f
}

// awaitAge waits until all servers have run for long enough to vote.
func (f *trio) awaitAge() {
	f.t.Helper()
	up := regexp.MustCompile(`uptime_in_seconds:(\d+)`)
	for i := range f.servers {
		doctortest.Eventually(f.t, "old enough", func() bool {
			m := up.FindStringSubmatch(f.do(i, "INFO", "server"))
			n, err := strconv.Atoi(m[1])
			return err == nil && time.Duration(n)*time.Second > maxTTL
		})
	}
}

func (f *trio) url() string { return "redlock://" + strings.Join(f.hosts, ",") + f.query }

// do sends a command to a server.
func (f *trio) do(i int, words ...string) string {
	f.t.Helper()
	c, err := redis.NewClient(redis.ClientOption{InitAddress: []string{f.servers[i].Addr()}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		f.t.Fatal(err)
	}
	defer c.Close()
	m, err := c.Do(context.Background(), c.B().Arbitrary(words...).Build()).ToMessage()
	if err != nil && !redis.IsRedisNil(err) {
		f.t.Fatalf("%v: %v", words, err)
	}
	text, _ := m.ToString()
	return text
}

// use takes a lock and gives it back.
func (f *trio) use() {
	f.t.Helper()
	c := f.open()
	defer c.Close()
	doctortest.Eventually(f.t, "held", func() bool {
		l, err := c.Mutex("name").TryLock(f.t.Context())
		return err == nil && l.Unlock() == nil
	})
}

func (f *trio) open() *pawl.Client {
	f.t.Helper()
	c, err := pawl.Open(f.t.Context(), f.url(), pawl.WithTTL(time.Second))
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

func clean(t *testing.T, store string) {
	t.Helper()
	doctortest.Clean(t, doctortest.Examine(t, store))
}

// see is doctortest.Expect for a finding at this very node, or at none.
func see(t *testing.T, found []doctor.Finding, check, node string, level doctor.Level, words ...string) doctor.Finding {
	t.Helper()
	f := doctortest.Expect(t, found, check, node, level, words...)
	if f.Node != node {
		t.Errorf("%+v is not at %q", f, node)
	}
	return f
}

func TestAGoodRedlockIsCleanBeforeAndAfterItsFirstLock(t *testing.T) {
	t.Parallel()
	f := newTrio(t)
	clean(t, f.url())
	see(t, doctortest.Examine(t, f.url()), "vote", f.hosts[0], doctor.OK, "new: votes as soon as a client asks")
	f.use()
	clean(t, f.url())
	see(t, doctortest.Examine(t, f.url()), "vote", f.hosts[2], doctor.OK, "votes")
	see(t, doctortest.Examine(t, f.url()), "quorum", "", doctor.OK, "3 of 3 servers vote, 2 are needed")
}

func TestAnExaminationChangesNothing(t *testing.T) {
	t.Parallel()
	f := newTrio(t)
	state := func() map[string]string {
		all := map[string]string{}
		for i := range f.servers {
			for line := range strings.Lines(f.do(i, "INFO")) {
				for _, name := range []string{"rdb_changes_since_last_save:", "db0:"} {
					if strings.HasPrefix(line, name) {
						all[fmt.Sprint(i, name)] = line
					}
				}
			}
			all[fmt.Sprint(i, " member")] = f.do(i, "DUMP", "pawl:\x01q")
		}
		return all
	}
	unchanged := func() {
		t.Helper()
		var before, after map[string]string
		for range 5 { // the last call of a client may come late, but not each time
			before = state()
			clean(t, f.url())
			if after = state(); maps.Equal(before, after) {
				return
			}
		}
		t.Errorf("%q became %q", before, after)
	}
	unchanged() // new servers stay new
	f.use()
	unchanged()
	if len(state()) < 8 {
		t.Errorf("%q", state())
	}
}

func TestServersThatDoNotVoteAreFoundAndSayWhenTheyWill(t *testing.T) {
	t.Parallel()
	f := newTrio(t)
	f.use()
	f.servers[1].Kill()
	see(t, doctortest.Examine(t, f.url()), "server", f.hosts[1], doctor.Warning, "unreachable", "no vote until it answers", "PING")
	f.servers[1].Restart()
	see(t, doctortest.Examine(t, f.url()), "vote", f.hosts[1], doctor.Warning, "was restarted, and votes 6.1s after the next client asks", "fewer of the other servers")
	f.do(2, "FLUSHALL")
	found := doctortest.Examine(t, f.url())
	see(t, found, "vote", f.hosts[2], doctor.Warning, "has lost its data or is new, and votes 6.1s after the next client asks")
	see(t, found, "quorum", "", doctor.Broken, "1 of 3 servers vote, 2 are needed", "No lock can be taken", "pawl run -s 'redlock://")
	c := f.open() // the next client
	defer c.Close()
	_, _ = c.Mutex("name").TryLock(t.Context())
	// Until they may, both say so.
	see(t, doctortest.Examine(t, f.url()), "vote", f.hosts[1], doctor.Warning, "no earlier than in")
	f.use()
	doctortest.Eventually(t, "all voting", func() bool { return doctor.Worst(doctortest.Examine(t, f.url())) == doctor.OK })
}

// The line of a finding is run as it is, by a shell.
func TestTheMendOfAServerThatDoesNotVote(t *testing.T) {
	t.Parallel()
	f := newTrio(t)
	f.use()
	f.servers[0].Kill()
	f.servers[0].Restart()
	mend := see(t, doctortest.Examine(t, f.url()), "vote", f.hosts[0], doctor.Warning, "was restarted").Mend
	folder := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(folder, "pawl"), "../../cmd/pawl").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	sh := exec.CommandContext(t.Context(), "sh", "-c", mend)
	sh.Env = append(os.Environ(), "PATH="+folder+":"+os.Getenv("PATH"))
	if out, err := sh.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", mend, err, out)
	}
	clean(t, f.url())
}

func TestServersThatWereJustStartedAreFound(t *testing.T) {
	t.Parallel()
	f := newTrio(t)
	f.query = "?max-ttl=1h"
	found := doctortest.Examine(t, f.url())
	see(t, found, "vote", f.hosts[0], doctor.Warning, "and votes no earlier than in 1h0m", "may have lost its locks")
	see(t, found, "quorum", "", doctor.Broken, "0 of 3 servers vote")
}

func TestServersOfAnotherQuorumAreFound(t *testing.T) {
	t.Parallel()
	f := newTrio(t)
	f.use()
	other := *f
	other.query = "?max-ttl=7s"
	found := doctortest.Examine(t, other.url())
	see(t, found, "vote", f.hosts[1], doctor.Broken, "another max-ttl", "refuses clients of this URL", `DEL "pawl:\x01q"`)
	for i := range f.servers { // the mend
		f.do(i, "DEL", "pawl:\x01q")
	}
	doctortest.Eventually(t, "clean", func() bool { return doctor.Worst(doctortest.Examine(t, other.url())) == doctor.OK })
}

func TestServersThatReplicateFromEachOtherAreFound(t *testing.T) {
	t.Parallel()
	f := newTrio(t)
	f.do(1, "REPLICAOF", "127.0.0.1", strconv.Itoa(f.servers[0].Port()))
	doctortest.Eventually(t, "a replica", func() bool { return strings.Contains(f.do(1, "INFO", "replication"), "master_link_status:up") })
	found := doctortest.Examine(t, f.url())
	mend := see(t, found, "independence", "", doctor.Broken, f.hosts[0]+" and "+f.hosts[1]+" replicate", "not independent", "REPLICAOF NO ONE").Mend
	see(t, found, "role", f.hosts[1], doctor.Broken, "is a replica of 127.0.0.1:", "no vote of its own", "REPLICAOF NO ONE")
	if want := fmt.Sprintf("redis-cli -h 127.0.0.2 -p %d REPLICAOF NO ONE", f.servers[1].Port()); mend != want {
		t.Errorf("%q, want %q", mend, want)
	}
	f.do(1, "REPLICAOF", "NO", "ONE")
	see(t, doctortest.Examine(t, f.url()), "independence", "", doctor.OK)
	see(t, doctortest.Examine(t, f.url()), "role", f.hosts[1], doctor.OK)
}

func TestSetsOfServersThatAreNoGoodAreFound(t *testing.T) {
	t.Parallel()
	f := newTrio(t)
	port := func(i int) int { return f.servers[i].Port() }
	twice := *f
	twice.hosts = []string{f.hosts[0], f.hosts[1], fmt.Sprintf("localhost:%d", port(0))}
	see(t, doctortest.Examine(t, twice.url()), "same server", "", doctor.Broken, "are one server", "two votes", "ANOTHER")
	two := *f
	two.hosts = f.hosts[:2]
	see(t, doctortest.Examine(t, two.url()), "servers", "", doctor.Broken, "2 servers, of which 0 may be lost", "fewer than three", "redlock://host1,host2,host3")
	four := *f
	extra := testserver.Redis(t, "--appendonly", "yes")
	four.hosts = append(slices.Clone(f.hosts), extra.Addr())
	found := doctortest.Examine(t, four.url())
	mend := see(t, found, "servers", "", doctor.Warning, "4 servers, of which 1 may be lost", "adds nothing").Mend
	if mend != "-s 'redlock://"+strings.Join(f.hosts, ",")+"'" {
		t.Errorf("%q", mend)
	}
	see(t, found, "hosts", "", doctor.Warning, f.hosts[0]+" and "+extra.Addr()+" are on the same host", "lost together", "ANOTHER")
	clean(t, f.url())
}

func TestAServerThatIsSetUpWrongIsFound(t *testing.T) {
	t.Parallel()
	f := newTrio(t)
	f.do(2, "CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru", "appendonly", "no")
	found := doctortest.Examine(t, f.url())
	for _, mend := range []string{
		see(t, found, "eviction policy", f.hosts[2], doctor.Broken, "allkeys-lru").Mend,
		see(t, found, "persistence", f.hosts[2], doctor.Warning, "appendonly no", "tokens continue from the clock").Mend,
	} {
		f.do(2, strings.Fields(mend)...)
	}
	clean(t, f.url())
	f.do(2, "ACL", "SETUSER", "default", "-info")
	found = doctortest.Examine(t, f.url())
	see(t, found, "rights", f.hosts[2], doctor.Broken, "lacks +info")
	see(t, found, "same server", "", doctor.Warning, f.hosts[2]+" does not tell", "by another name", "INFO")
	see(t, found, "independence", "", doctor.Warning, f.hosts[2]+" does not tell", "no vote of its own", "INFO")
}

func TestAStoreThatCannotBeReachedIsAnError(t *testing.T) {
	t.Parallel()
	for store, is := range map[string]error{
		"redlock://u:secret@127.0.0.1:1,127.0.0.2:1,127.0.0.3:1": driver.ErrUnreachable,
		"redlock://u:secret@a,b,c?colour=red":                    driver.ErrURL,
		"redlock://u:secret@a,a,c":                               driver.ErrURL,
	} {
		found, err := doctor.Examine(t.Context(), store)
		if !errors.Is(err, is) {
			t.Errorf("%s: %v, %v", store, found, err)
		} else if text := err.Error(); strings.Contains(text, "secret") || strings.Contains(text, "\n") {
			t.Errorf("%v", err)
		}
	}
}
