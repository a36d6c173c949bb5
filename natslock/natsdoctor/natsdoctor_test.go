package natsdoctor

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/doctortest"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
	_ "github.com/pawl-go/pawl/natslock"
)

func storeOf(addresses ...string) string {
	return "nats://" + strings.Join(addresses, ",") + "/team"
}

func TestAGoodClusterIsCleanAndStaysAsItIs(t *testing.T) {
	t.Parallel()
	c := testserver.NATSServers(t, 3, nil, "sync_interval: always")
	x, store := monitored(c.Members...), storeOf(c.Addrs()...)
	js := dialTo(t, "nats://"+c.Addrs()[0])
	found := examined(t, x, store)
	doctortest.CleanButTimes(t, found)
	doctortest.Expect(t, found, "bucket", "", doctor.OK, "does not exist", "replicas: 3")
	if text := content(t, js); text != "" {
		t.Errorf("the examination made %s", text)
	}
	doctortest.Held(t, store)
	c.Await()
	before := content(t, js)
	found = examined(t, x, store)
	for deadline := time.Now().Add(time.Minute); strings.Contains(doctortest.Text(found...), "does not follow") && time.Now().Before(deadline); {
		found = examined(t, x, store) // poll: a new bucket's followers need a moment
	}
	t.Log("\n" + doctortest.Text(found...))
	doctortest.CleanButTimes(t, found)
	for _, check := range []string{"cluster", "jetstream", "endpoints", "bucket", "leader", "replicas", "persistence", "acknowledgements", "protection", "space", "message size", "clock", "right to publish", "right to subscribe"} {
		doctortest.Expect(t, found, check, "", doctor.OK)
	}
	for _, node := range c.Addrs() {
		for _, check := range []string{"server", "version", "sync interval"} {
			doctortest.Expect(t, found, check, node, doctor.OK)
		}
		doctortest.Measured(t, found, "round trip", node)
	}
	if after := content(t, js); after != before {
		t.Errorf("the examination changed the store:\n%s\n%s", before, after)
	}
}

func TestASingleServerWithTheDefaultSyncIntervalIsWarnedOf(t *testing.T) {
	t.Parallel()
	server := testserver.NATS(t)
	store := storeOf(server.Addr())
	stillHeld := doctortest.Held(t, store)
	found := examined(t, monitored(server), store)
	f := doctortest.Expect(t, found, "sync interval", server.Addr(), doctor.Warning, "2m0s", "lose power", "# in the block jetstream")
	alone := doctortest.Expect(t, found, "cluster", "", doctor.Warning, "a single server", "no lock can be taken", "routes:", "while nothing is locked")
	doctortest.CleanButTimes(t, found, "sync interval", "cluster")

	elsewhere := examiner{func(string) string { return fmt.Sprintf("127.0.0.1:%d", testserver.FreePort(t)) }}
	doctortest.Expect(t, examined(t, elsewhere, store), "sync interval", server.Addr(), doctor.Warning, "cannot read it", "lose power", "sync_interval: always")
	other := testserver.NATS(t)
	wrong := examiner{func(string) string { return fmt.Sprintf("127.0.0.1:%d", other.Ports()[1]) }}
	doctortest.Expect(t, examined(t, wrong, store), "sync interval", server.Addr(), doctor.Warning, "the page of another server")

	configure(t, server, "jetstream { ", "jetstream { "+line(f)+", ")
	doctortest.Mended(t, found, examined(t, monitored(server), store), "sync interval", server.Addr())
	stillHeld()
	growsToACluster(t, server, found, alone)
}

// growsToACluster does what the mend of a single server says.
func growsToACluster(t *testing.T, server *testserver.Server, found []doctor.Finding, f doctor.Finding) {
	t.Helper()
	_, rm, _ := strings.Cut(f.Mend, " # after ")
	apply(t, dialTo(t, "nats://"+server.Addr()), doctor.Finding{Mend: rm})
	var ports, lines [3]string
	for i := range ports {
		ports[i] = fmt.Sprintf("127.0.0.1:%d", testserver.FreePort(t))
	}
	for i := range lines {
		lines[i] = strings.NewReplacer("NAME", "c", "0.0.0.0:6222", ports[i], "HOST2:6222", ports[(i+1)%3], "HOST3:6222", ports[(i+2)%3]).Replace(line(f))
	}
	const jetStream = "jetstream { store_dir: data, sync_interval: always }"
	members := []*testserver.Server{server, testserver.NATSMember(t, "two", jetStream, lines[1]), testserver.NATSMember(t, "three", jetStream, lines[2])}
	configure(t, server, "jetstream {", lines[0]+"\njetstream {")
	x, store := monitored(members...), storeOf(server.Addr(), members[1].Addr(), members[2].Addr())
	locks, err := pawl.Open(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	doctortest.Eventually(t, "the servers know each other", func() bool {
		_, err := locks.Mutex("name").TryLock(t.Context())
		return err == nil
	})
	var after []doctor.Finding
	doctortest.Eventually(t, "followed", func() bool {
		after = examined(t, x, store)
		return slices.ContainsFunc(after, func(f doctor.Finding) bool { return f.Check == "leader" && f.Level == doctor.OK })
	})
	doctortest.Mended(t, found, after, "cluster", "")
}

func TestAServerWithoutJetStreamIsFound(t *testing.T) {
	t.Parallel()
	server := testserver.NATSWith(t)
	x, store := monitored(server), storeOf(server.Addr())
	found := examined(t, x, store)
	f := doctortest.Expect(t, found, "jetstream", "", doctor.Broken, "it is off", "nothing can be locked", `store_dir: "/var/lib/nats"`)
	configure(t, server, "listen:", strings.Replace(f.Mend, "/var/lib/nats", "data", 1)+"\nlisten:")
	doctortest.Held(t, store)
	doctortest.Mended(t, found, examined(t, x, store), "jetstream", "")
}

// The lines of an account and of the limit of messages go into the file of the server.
func TestLimitsOfTheServerAndOfAnAccountAreFound(t *testing.T) {
	t.Parallel()
	const off, payload = "team { users: [{user: ana, password: word}]", "max_payload: 50000"
	server := testserver.NATS(t, "accounts { "+off+" } }", payload)
	x, store := monitored(server), "nats://ana:word@"+server.Addr()+"/team"
	found := examined(t, x, store)
	f := doctortest.Expect(t, found, "jetstream", "", doctor.Broken, "off for this account", "nothing can be locked")
	inAccount := regexp.MustCompile(`^accounts { NAME { (.*) } }$`)
	on := inAccount.ReplaceAllString(f.Mend, off+", $1")
	configure(t, server, off, on)
	stillHeld := doctortest.Held(t, store)
	found = examined(t, x, store)
	doctortest.Expect(t, found, "jetstream", "", doctor.OK)

	configure(t, server, payload, doctortest.Expect(t, found, "message size", "", doctor.Warning, "at most 50000 bytes").Mend)
	doctortest.Mended(t, found, examined(t, x, store), "message size", "")
	stillHeld()

	full := off + ", jetstream { max_file: 100 }"
	configure(t, server, on, full)
	found = examined(t, x, store)
	f = doctortest.Expect(t, found, "space", "", doctor.Broken, "of 100 bytes of the account", "No further name")
	configure(t, server, full, inAccount.ReplaceAllString(f.Mend, off+", $1"))
	doctortest.Mended(t, found, examined(t, x, store), "space", "")
	stillHeld()
}

func TestADomainIsFound(t *testing.T) {
	t.Parallel()
	server := testserver.NATSWith(t, "jetstream { store_dir: data, domain: hub }")
	x, store := monitored(server), storeOf(server.Addr())
	found := examined(t, x, store)
	f := doctortest.Expect(t, found, "jetstream", "", doctor.Broken, `domain "hub"`, "pawl refuses it")
	setting, ok := strings.CutPrefix(strings.TrimSuffix(f.Mend, " from the jetstream block of the servers"), "remove ")
	if !ok {
		t.Fatalf("%q", f.Mend)
	}
	configure(t, server, setting, "")
	doctortest.Held(t, store)
	doctortest.Mended(t, found, examined(t, x, store), "jetstream", "")
}

func TestOneReplicaInAClusterAndServersThatAreDownAreFound(t *testing.T) {
	t.Parallel()
	c := testserver.NATSServers(t, 3, nil, "sync_interval: always")
	x, store := monitored(c.Members...), storeOf(c.Addrs()...)
	stillHeld := doctortest.Held(t, store+"?replicas=1")
	found := examined(t, x, store)
	f := doctortest.Expect(t, found, "replicas", "", doctor.Warning, "1", "no lock can be taken")
	apply(t, dialTo(t, strings.Join(c.Addrs(), ",")), f)
	c.Leader("KV_team")
	c.Await()
	doctortest.Mended(t, found, examined(t, x, store), "replicas", "", "leader") // a new follower needs a moment
	found = examined(t, x, storeOf(c.Addrs()[0]))
	f = doctortest.Expect(t, found, "endpoints", "", doctor.Warning, "names 1 server", "PAWL_STORE=nats://"+c.Addrs()[0])
	url := strings.NewReplacer("PAWL_STORE=", "", "HOST2:4222", c.Addrs()[1], "HOST3:4222", c.Addrs()[2]).Replace(f.Mend)
	doctortest.Mended(t, found, examined(t, x, url), "endpoints", "", "leader")

	down := c.Except(c.Leader("KV_team"))[0]
	c.Members[down].Kill()
	deadline := time.Now().Add(time.Minute)
	for { // poll: the leader needs a while to notice
		found = examined(t, x, store)
		if !strings.Contains(doctortest.Text(found...), "does not follow") && time.Now().Before(deadline) {
			continue
		}
		break
	}
	one := found
	doctortest.Expect(t, found, "leader", "", doctor.Warning, "does not follow", "systemctl start nats-server")
	doctortest.Expect(t, found, "server", c.Addrs()[down], doctor.Warning, "does not answer", "systemctl start nats-server")

	rest := c.Except(down)
	c.Members[rest[0]].Pause()                           // stuck, not gone
	for deadline := time.Now().Add(2 * time.Minute); ; { // poll: the same, and an examination waits for the stuck one
		found = examined(t, x, store)
		broken := func(f doctor.Finding) bool { return f.Check == "jetstream" && f.Level == doctor.Broken }
		if slices.ContainsFunc(found, broken) || time.Now().After(deadline) {
			break
		}
	}
	doctortest.Expect(t, found, "jetstream", "", doctor.Broken, "majority", "systemctl start nats-server")
	doctortest.Expect(t, found, "server", c.Addrs()[rest[0]], doctor.Warning, "does not answer", "systemctl restart nats-server")
	for _, i := range []int{rest[0], down} {
		systemctl(t, doctortest.Find(t, found, "server", c.Addrs()[i]), c.Members[i])
	}
	c.Await()
	var after []doctor.Finding
	doctortest.Eventually(t, "followed", func() bool {
		after = examined(t, x, store)
		return slices.ContainsFunc(after, func(f doctor.Finding) bool { return f.Check == "leader" && f.Level == doctor.OK })
	})
	doctortest.Mended(t, one, after, "leader", "")
	doctortest.Expect(t, after, "clock", "", doctor.OK) // without a majority it may have been a warning
	doctortest.Applied("clock")
	doctortest.Mended(t, found, after, "jetstream", "")
	for _, i := range []int{rest[0], down} {
		doctortest.Mended(t, found, after, "server", c.Addrs()[i])
	}
	stillHeld()
}

func TestTwoServersWithoutAClusterInOneURLAreFound(t *testing.T) {
	t.Parallel()
	one, two := testserver.NATS(t), testserver.NATS(t)
	x, store := monitored(one, two), storeOf(one.Addr(), two.Addr())
	doctortest.Expect(t, examined(t, x, store), "cluster", "", doctor.Broken, "are not in a cluster", "Two clients can hold", "PAWL_STORE=nats://"+one.Addr()+"/team")
	doctortest.Held(t, storeOf(two.Addr()))
	mended := strings.TrimPrefix(doctortest.Expect(t, examined(t, x, store), "cluster", "", doctor.Broken, "only one of", "Two clients can hold", "PAWL_STORE=nats://"+two.Addr()+"/team").Mend, "PAWL_STORE=")
	doctortest.Mended(t, examined(t, x, store), examined(t, x, mended), "cluster", "", "cluster") // a single server, still
	doctortest.Expect(t, examined(t, x, mended), "bucket", "", doctor.OK, "team has the settings")
	doctortest.Held(t, storeOf(one.Addr()))
	doctortest.Expect(t, examined(t, x, store), "cluster", "", doctor.Broken, "different buckets team", "PAWL_STORE=nats://"+two.Addr()+"/team") // the older one
}

// Two clusters may have one name, and before there is a bucket only a message tells.
func TestServersOfTwoClustersInOneURLAreFound(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"right", "left"} {
		left, right := testserver.NATSNamed(t, "left", 2, nil), testserver.NATSNamed(t, name, 2, nil)
		one, two := left.Members[0], right.Members[0]
		x, store := monitored(one, two), storeOf(one.Addr(), two.Addr())
		doctortest.Expect(t, examined(t, x, storeOf(left.Addrs()...)), "cluster", "", doctor.OK)
		doctortest.Expect(t, examined(t, x, store), "cluster", "", doctor.Broken, one.Addr()+", in cluster left, and", "in cluster "+name+", are not connected", "Two clients can hold", "PAWL_STORE=nats://"+one.Addr()+"/team")
		twoHolders(t, store)
		doctortest.Held(t, storeOf(two.Addr())+"?replicas=1")
		doctortest.Expect(t, examined(t, x, store), "cluster", "", doctor.Broken, "Two clients can hold")
	}
}

// twoHolders shows what the meaning of the finding says: clients connect to any server of
// the URL.
func twoHolders(t *testing.T, store string) {
	t.Helper()
	hosts := strings.Split(strings.TrimSuffix(strings.TrimPrefix(store, "nats://"), "/team"), ",")
	for _, host := range hosts {
		c, err := pawl.Open(t.Context(), storeOf(host)+"?replicas=1")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Mutex("both").TryLock(t.Context()); err != nil {
			t.Errorf("at %s: %v", host, err)
		}
	}
}

func TestAServerThatDoesNotTellItsBucketIsWarnedOf(t *testing.T) {
	t.Parallel()
	c := testserver.NATSServers(t, 3, nil)
	proxy := faultproxy.New(t, c.Addrs()[1])
	x, store := monitored(c.Members...), storeOf(c.Addrs()[0], proxy.Addr())
	doctortest.Expect(t, examined(t, x, store), "cluster", "", doctor.OK)
	proxy.SwallowReplies(1000, faultproxy.Matching(func(request []byte) bool { return bytes.Contains(request, []byte("$JS.API.STREAM.INFO")) }))
	doctortest.Expect(t, examined(t, x, store), "cluster", "", doctor.Warning, "cannot ask "+proxy.Addr()+" for its bucket", "two clients can hold", "PAWL_STORE=nats://"+c.Addrs()[0])
	doctortest.Expect(t, examined(t, x, storeOf(proxy.Addr(), c.Addrs()[0])), "cluster", "", doctor.Warning, "cannot ask "+proxy.Addr()+" for its bucket")
	doctortest.Held(t, storeOf(c.Addrs()[0]))
	found := examined(t, x, store)
	f := doctortest.Expect(t, found, "cluster", "", doctor.Warning, "cannot ask "+proxy.Addr()+" for its bucket")
	doctortest.Mended(t, found, examined(t, x, strings.TrimPrefix(f.Mend, "PAWL_STORE=")), "cluster", "", "endpoints", "leader") // of one server, and a follower needs a moment
	if proxy.Swallowed() == 0 {
		t.Error("nothing was swallowed")
	}
}

func TestServersThatAreAwayAreAnError(t *testing.T) {
	t.Parallel()
	_, err := doctor.Examine(t.Context(), fmt.Sprintf("nats://ana:hidden-word@127.0.0.1:%d", testserver.FreePort(t)))
	if !errors.Is(err, driver.ErrUnreachable) || strings.Contains(err.Error(), "hidden-word") {
		t.Errorf("%v", err)
	}
}

// A server of such a version is not at hand.
func TestOldVersionsAreJudged(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]doctor.Level{"2.10.29": doctor.Broken, "2.11.0": doctor.OK, "2.15.2": doctor.OK, "3.0.0": doctor.OK, "": doctor.Warning, "main": doctor.Warning} {
		if f := judgeVersion(text); f.Level != want || (f.Mend == "") != (want == doctor.OK) {
			t.Errorf("%q: %+v", text, f)
		}
	}
}
