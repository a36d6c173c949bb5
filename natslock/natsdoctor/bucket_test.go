package natsdoctor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/internal/doctortest"
	"github.com/pawl-go/pawl/internal/testserver"
)

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
	stillHeld := doctortest.Held(t, store)
	for _, test := range []struct {
		check  string
		level  doctor.Level
		words  []string
		change func(*jetstream.StreamConfig)
	}{
		{"acknowledgements", doctor.Broken, []string{"off", "no write is ever answered"}, func(c *jetstream.StreamConfig) { c.NoAck = true }},
		{"space", doctor.Broken, []string{"2 of 2 messages", "No further name"}, func(c *jetstream.StreamConfig) { c.MaxMsgs = 2 }},
		{"message size", doctor.Warning, []string{"at most 3000 bytes", "more than about 10 claims"}, func(c *jetstream.StreamConfig) { c.MaxMsgSize = 3000 }},
		{"bucket", doctor.Broken, []string{"no maximal age", "pawl refuses it", "while nothing is locked"}, func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }},
		{"bucket", doctor.Broken, []string{"discard=new", "pawl refuses it"}, func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld }},
		{"bucket", doctor.Broken, []string{"one message per subject"}, func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 5 }},
		{"bucket", doctor.Broken, []string{"not made by pawl", "pawl refuses it"}, func(c *jetstream.StreamConfig) { delete(c.Metadata, "pawl") }},
	} {
		changed(t, js, test.change)
		found := examined(t, x, store)
		f := doctortest.Expect(t, found, test.check, "", test.level, test.words...)
		doctortest.CleanButTimes(t, found, test.check, "cluster", "sync interval")
		if url, ok := strings.CutPrefix(f.Mend, "PAWL_STORE="); ok { // the last one: another bucket
			store = url
		} else {
			apply(t, js, f)
		}
		if test.check == "bucket" {
			stillHeld = doctortest.Held(t, store) // the lock was in the one that is gone
		}
		doctortest.Mended(t, found, examined(t, x, store), test.check, "")
		stillHeld()
	}
}

func TestABucketThatIsNearlyFullIsWarnedOf(t *testing.T) {
	t.Parallel()
	server := testserver.NATS(t)
	x, store := monitored(server), storeOf(server.Addr())
	js := dialTo(t, "nats://"+server.Addr())
	stillHeld := doctortest.Held(t, store)
	stream, err := js.Stream(t.Context(), "KV_team")
	if err != nil {
		t.Fatal(err)
	}
	used := int64(stream.CachedInfo().State.Bytes)
	changed(t, js, func(c *jetstream.StreamConfig) { c.MaxBytes = used + used/10 })
	found := examined(t, x, store)
	apply(t, js, doctortest.Expect(t, found, "space", "", doctor.Warning, fmt.Sprintf("%d of %d bytes of the bucket", used, used+used/10), "no further name"))
	doctortest.Mended(t, found, examined(t, x, store), "space", "")
	stillHeld()
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
	f := doctortest.Expect(t, found, "persistence", "", doctor.Broken, "in memory", "frees all locks", "while nothing is locked")
	doctortest.Expect(t, found, "protection", "", doctor.Warning, "can be deleted or purged", "frees locks", f.Mend)
	doctortest.CleanButTimes(t, found, "persistence", "protection", "cluster", "sync interval")
	apply(t, js, f)
	doctortest.Held(t, store)
	after := examined(t, x, store)
	doctortest.Mended(t, found, after, "persistence", "")
	doctortest.Mended(t, found, after, "protection", "")
}
