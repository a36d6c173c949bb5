package natsdoctor

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

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

// held opens a store and takes a lock, which makes the bucket.
func held(t *testing.T, store string) {
	t.Helper()
	locks, err := pawl.Open(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { locks.Close() })
	if _, err := locks.Mutex("name", pawl.WithTTL(2*time.Minute), pawl.WithoutRenewal()).Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
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
	held(t, store)
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
	found := examined(t, monitored(server), store)
	doctortest.Expect(t, found, "sync interval", server.Addr(), doctor.Warning, "2m0s", "lose power", "sync_interval: always")
	doctortest.Expect(t, found, "cluster", "", doctor.Warning, "a single server", "no lock can be taken", "routes:")
	doctortest.CleanButTimes(t, found, "sync interval", "cluster")

	elsewhere := examiner{func(string) string { return fmt.Sprintf("127.0.0.1:%d", testserver.FreePort(t)) }}
	doctortest.Expect(t, examined(t, elsewhere, store), "sync interval", server.Addr(), doctor.Warning, "cannot read it", "lose power", "sync_interval: always")
	other := testserver.NATS(t)
	wrong := examiner{func(string) string { return fmt.Sprintf("127.0.0.1:%d", other.Ports()[1]) }}
	doctortest.Expect(t, examined(t, wrong, store), "sync interval", server.Addr(), doctor.Warning, "the page of another server")
}

func TestAServerWithoutJetStreamIsFound(t *testing.T) {
	t.Parallel()
	server := testserver.NATSWith(t)
	doctortest.Expect(t, examined(t, monitored(server), storeOf(server.Addr())), "jetstream", "", doctor.Broken, "it is off", "nothing can be locked", "jetstream { store_dir:")

	domain := testserver.NATSWith(t, "jetstream { store_dir: data, domain: hub }")
	doctortest.Expect(t, examined(t, monitored(domain), storeOf(domain.Addr())), "jetstream", "", doctor.Broken, `domain "hub"`, "pawl refuses it", "remove domain: hub")
}

// changed changes the settings of the bucket.
func changed(t *testing.T, js jetstream.JetStream, change func(*jetstream.StreamConfig)) {
	t.Helper()
	stream, err := js.Stream(t.Context(), "KV_team")
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	change(&config)
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
}

func TestSettingsOfTheBucketAreJudged(t *testing.T) {
	t.Parallel()
	server := testserver.NATS(t)
	x, store := monitored(server), storeOf(server.Addr())
	js := dialTo(t, "nats://"+server.Addr())
	held(t, store)
	for _, test := range []struct {
		check        string
		level        doctor.Level
		words        []string
		change, mend func(*jetstream.StreamConfig)
	}{
		{"bucket", doctor.Broken, []string{"no maximal age", "pawl refuses it", "nats stream rm -f KV_team"},
			func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }, func(c *jetstream.StreamConfig) { c.MaxAge = 0 }},
		{"bucket", doctor.Broken, []string{"discard=new", "pawl refuses it"},
			func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld }, func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardNew }},
		{"bucket", doctor.Broken, []string{"one message per subject"},
			func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 5 }, func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 }},
		{"bucket", doctor.Broken, []string{"not made by pawl", "PAWL_STORE=nats://" + server.Addr() + "/OTHER"},
			func(c *jetstream.StreamConfig) { delete(c.Metadata, "pawl") }, func(c *jetstream.StreamConfig) { c.Metadata["pawl"] = "1" }},
		{"acknowledgements", doctor.Broken, []string{"off", "no write is ever answered", "nats stream edit -f KV_team --ack"},
			func(c *jetstream.StreamConfig) { c.NoAck = true }, func(c *jetstream.StreamConfig) { c.NoAck = false }},
		{"space", doctor.Broken, []string{"1 of 1 messages", "No further name", "--max-msgs=-1"},
			func(c *jetstream.StreamConfig) { c.MaxMsgs = 1 }, func(c *jetstream.StreamConfig) { c.MaxMsgs = -1 }},
		{"message size", doctor.Warning, []string{"at most 3000 bytes", "more than about 10 claims", "--max-msg-size=-1"},
			func(c *jetstream.StreamConfig) { c.MaxMsgSize = 3000 }, func(c *jetstream.StreamConfig) { c.MaxMsgSize = -1 }},
	} {
		changed(t, js, test.change)
		found := examined(t, x, store)
		doctortest.Expect(t, found, test.check, "", test.level, test.words...)
		doctortest.CleanButTimes(t, found, test.check, "cluster", "sync interval")
		changed(t, js, test.mend)
		doctortest.Applied(test.check) // by the API: the command nats is not there
		doctortest.Expect(t, examined(t, x, store), test.check, "", doctor.OK)
	}
}

func TestABucketThatIsNearlyFullIsWarnedOf(t *testing.T) {
	t.Parallel()
	server := testserver.NATS(t)
	x, store := monitored(server), storeOf(server.Addr())
	js := dialTo(t, "nats://"+server.Addr())
	held(t, store)
	stream, err := js.Stream(t.Context(), "KV_team")
	if err != nil {
		t.Fatal(err)
	}
	used := int64(stream.CachedInfo().State.Bytes)
	changed(t, js, func(c *jetstream.StreamConfig) { c.MaxBytes = used + used/10 })
	doctortest.Expect(t, examined(t, x, store), "space", "", doctor.Warning, fmt.Sprintf("%d of %d bytes of the bucket", used, used+used/10), "no further name", "--max-bytes=-1")
	changed(t, js, func(c *jetstream.StreamConfig) { c.MaxBytes = -1 })
	doctortest.Expect(t, examined(t, x, store), "space", "", doctor.OK)
}

// A bucket that an operator made with the mark of pawl and settings of their own.
func TestABucketInMemoryWithoutProtectionIsFound(t *testing.T) {
	t.Parallel()
	server := testserver.NATS(t)
	x, store := monitored(server), storeOf(server.Addr())
	js := dialTo(t, "nats://"+server.Addr())
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "KV_team", Subjects: []string{"$KV.team.word.>"}, Metadata: map[string]string{"pawl": "1"}, Storage: jetstream.MemoryStorage,
		MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, AllowMsgTTL: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	found := examined(t, x, store)
	doctortest.Expect(t, found, "persistence", "", doctor.Broken, "in memory", "frees all locks", "nats stream rm -f KV_team")
	doctortest.Expect(t, found, "protection", "", doctor.Warning, "can be deleted or purged", "frees locks", "nats stream rm -f KV_team")
	doctortest.CleanButTimes(t, found, "persistence", "protection", "cluster", "sync interval")
	if err := js.DeleteStream(t.Context(), "KV_team"); err != nil { // what the mend says
		t.Fatal(err)
	}
	held(t, store)
	found = examined(t, x, store)
	doctortest.Expect(t, found, "persistence", "", doctor.OK)
	doctortest.Expect(t, found, "protection", "", doctor.OK)
	doctortest.Applied("persistence", "protection")
}

func TestOneReplicaInAClusterAndServersThatAreDownAreFound(t *testing.T) {
	t.Parallel()
	c := testserver.NATSServers(t, 3, nil, "sync_interval: always")
	x, store := monitored(c.Members...), storeOf(c.Addrs()...)
	held(t, store+"?replicas=1")
	doctortest.Expect(t, examined(t, x, store), "replicas", "", doctor.Warning, "1", "no lock can be taken", "nats stream edit -f KV_team --replicas=3")
	js := dialTo(t, strings.Join(c.Addrs(), ","))
	changed(t, js, func(config *jetstream.StreamConfig) { config.Replicas = 3 })
	c.Leader("KV_team")
	c.Await()
	doctortest.Expect(t, examined(t, x, store), "replicas", "", doctor.OK)
	doctortest.Applied("replicas")
	doctortest.Expect(t, examined(t, x, storeOf(c.Addrs()[0])), "endpoints", "", doctor.Warning, "names 1 server", "PAWL_STORE=nats://"+c.Addrs()[0])

	down := c.Except(c.Leader("KV_team"))[0]
	c.Members[down].Kill()
	deadline := time.Now().Add(time.Minute)
	var found []doctor.Finding
	for { // poll: the leader needs a while to notice
		found = examined(t, x, store)
		if !strings.Contains(doctortest.Text(found...), "does not follow") && time.Now().Before(deadline) {
			continue
		}
		break
	}
	doctortest.Expect(t, found, "leader", "", doctor.Warning, "does not follow", "systemctl start nats-server")
	doctortest.Expect(t, found, "server", c.Addrs()[down], doctor.Warning, "does not answer", "systemctl start nats-server")

	rest := c.Except(down)
	c.Members[rest[0]].Kill()
	for deadline := time.Now().Add(time.Minute); ; { // poll: the same
		found = examined(t, x, store)
		broken := func(f doctor.Finding) bool { return f.Check == "jetstream" && f.Level == doctor.Broken }
		if slices.ContainsFunc(found, broken) || time.Now().After(deadline) {
			break
		}
	}
	doctortest.Expect(t, found, "jetstream", "", doctor.Broken, "majority", "systemctl start nats-server")
}

func TestTwoServersWithoutAClusterInOneURLAreFound(t *testing.T) {
	t.Parallel()
	one, two := testserver.NATS(t), testserver.NATS(t)
	x, store := monitored(one, two), storeOf(one.Addr(), two.Addr())
	doctortest.Expect(t, examined(t, x, store), "cluster", "", doctor.Broken, "are not in a cluster", "Two clients can hold", "PAWL_STORE=nats://"+one.Addr()+"/team")
	held(t, storeOf(two.Addr()))
	mended := strings.TrimPrefix(doctortest.Expect(t, examined(t, x, store), "cluster", "", doctor.Broken, "only one of", "Two clients can hold", "PAWL_STORE=nats://"+two.Addr()+"/team").Mend, "PAWL_STORE=")
	doctortest.Mended(t, examined(t, x, store), examined(t, x, mended), "cluster", "", "cluster") // a single server, still
	doctortest.Expect(t, examined(t, x, mended), "bucket", "", doctor.OK, "team has the settings")
	held(t, storeOf(one.Addr()))
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
		held(t, storeOf(two.Addr())+"?replicas=1")
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
	held(t, storeOf(c.Addrs()[0]))
	doctortest.Expect(t, examined(t, x, store), "cluster", "", doctor.Warning, "cannot ask "+proxy.Addr()+" for its bucket")
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
