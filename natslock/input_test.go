package natslock

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/natslock/internal/natsstore"
)

func TestAnInvalidURLIsRefused(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"nats:":                                    "no host",
		"nats:///bucket":                           "no host",
		"nats://a,,b":                              "empty",
		"nats://a:1:2":                             "not host:port",
		"nats://a/a.b":                             "letters, digits",
		"nats://a/a/b":                             "letters, digits",
		"nats://a/" + strings.Repeat("x", 201):     "letters, digits",
		"nats://a?bucket=x":                        "creds, nkey, replicas",
		"nats://a?replicas=0":                      "replicas",
		"nats://a?tls=maybe":                       "skip-verify",
		"nats://a?tls-ca=file":                     "tls=yes",
		"nats://a?creds=x&nkey=y":                  "only one of",
		"nats://ana:word@a?nkey=y":                 "only one of",
		"nats://a?creds=/there/is/none":            "parameter creds: no such file",
		"nats://a?nkey=/there/is/none":             "parameter nkey: no such file",
		"nats://ana:hidden-word@a?oops=1":          "oops",
		"nats://ana:hidden-word@a?tls=hidden-word": "skip-verify",
	} {
		c, err := pawl.Open(t.Context(), text)
		if err == nil {
			c.Close()
			t.Errorf("%s: opened", text)
			continue
		}
		if !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hidden-word") {
			t.Errorf("%s: %v, which does not say %q or shows the password", text, err, says)
		}
		if !strings.Contains(text, "/there/is/none") && !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("%s: %v is not ErrInvalid", text, err)
		}
	}
}

// lockOn tries to take a lock in a bucket.
func lockOn(t *testing.T, js jetstream.JetStream, bucket string) error {
	t.Helper()
	c := pawl.New(New(js, WithBucket(bucket)))
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	l, err := c.Mutex("name").TryLock(ctx)
	if err == nil {
		err = l.Unlock()
	}
	return err
}

// expectError checks what an error is and says.
func expectError(t *testing.T, what string, err, kind error, words ...string) {
	t.Helper()
	if err == nil || kind != nil && !errors.Is(err, kind) {
		t.Errorf("%s: %v, not %v", what, err, kind)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %q does not say %q", what, err, w)
		}
	}
}

// A stream that pawl did not make, or that was changed, is refused and left as it is.
func TestABucketThatIsNotFitIsLeftAlone(t *testing.T) {
	t.Parallel()
	js := connect(t, testserver.NATS(t).Addr())
	ours := natsstore.NewConfig("unused", 1, false)
	for name, f := range map[string]struct {
		change func(*jetstream.StreamConfig)
		says   string
	}{
		"foreign": {func(c *jetstream.StreamConfig) { c.Metadata = nil }, "not made by pawl"},
		"later":   {func(c *jetstream.StreamConfig) { c.Metadata[natsstore.Mark] = "2" }, "another version"},
		"mirror": {func(c *jetstream.StreamConfig) {
			c.Subjects, c.Mirror = nil, &jetstream.StreamSource{Name: "KV_foreign"}
		}, "copy of another"},
		"sources": {func(c *jetstream.StreamConfig) { c.Sources = []*jetstream.StreamSource{{Name: "KV_foreign"}} }, "copy of another"},
		"transform": {func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: "$KV.transform.word.>", Destination: "$KV.transform.other.>"}
		}, "subject transform"},
		"subjects": {func(c *jetstream.StreamConfig) { c.Subjects = []string{"$KV.subjects.>"} }, "subjects were changed"},
		"history":  {func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 5 }, "configuration was changed"},
		"age":      {func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }, "configuration was changed"},
		"old":      {func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld }, "configuration was changed"},
		"noTTL":    {func(c *jetstream.StreamConfig) { c.AllowMsgTTL = false }, "configuration was changed"},
		"queue":    {func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy }, "configuration was changed"},
	} {
		config := ours
		config.Name, config.Subjects = natsstore.StreamName(name), []string{natsstore.Subjects(name) + "word.>"}
		config.Metadata = map[string]string{natsstore.Mark: "1"}
		f.change(&config)
		before, err := js.CreateStream(t.Context(), config)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		expectError(t, name, lockOn(t, js, name), nil, name, f.says)
		after, err := js.Stream(t.Context(), config.Name)
		if err != nil {
			t.Fatal(err)
		}
		if was, is := before.CachedInfo(), after.CachedInfo(); !reflect.DeepEqual(was.Config, is.Config) || is.State.LastSeq != 0 {
			t.Errorf("%s: changed from %+v to %+v", name, was, is)
		}
	}
}

func TestAKeyThatHoldsSomethingElseIsLeftAlone(t *testing.T) {
	t.Parallel()
	js := connect(t, testserver.NATS(t).Addr())
	c := pawl.New(New(js))
	defer c.Close()
	e := New(js)
	defer e.Close()
	if err := lockOn(t, js, defaultBucket); err != nil {
		t.Fatal(err)
	}
	s := newStore(js, options{bucket: defaultBucket})
	for _, text := range []string{"", "hello", "{}", `{"pawl":[]}`, `{"pawl":{}}`, "[1]"} {
		line, record := "line.name", "record.name"
		for _, key := range []string{line, record} {
			v, err := s.Get(t.Context(), key)
			if err == nil {
				v.Data = []byte(text)
				_, err = s.Put(t.Context(), key, v, 0)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		_, err := c.Mutex("name").TryLock(t.Context())
		expectError(t, "TryLock", err, nil, `"name"`, "something else", "left alone")
		_, err = e.Line(t.Context(), "name")
		expectError(t, "Line", err, nil, `"name"`, "something else")
		_, _, err = e.Load(t.Context(), "name")
		expectError(t, "Load", err, nil, `"name"`, "something else")
		_, err = e.Store(t.Context(), "name", []byte("x"), 0, 0)
		expectError(t, "Store", err, nil, `"name"`, "something else")
		for _, key := range []string{line, record} {
			if v, err := s.Get(t.Context(), key); err != nil || string(v.Data) != text {
				t.Errorf("%s is %q now, %v", key, v.Data, err)
			}
		}
		l, err := c.Mutex("other").TryLock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		shown, faults := 0, 0
		for _, err := range e.List(t.Context(), "") { // the foreign key does not hide the next
			if err != nil {
				faults++
			} else {
				shown++
			}
		}
		if shown != 1 || faults != 1 {
			t.Errorf("List shows %d claims and %d errors", shown, faults)
		}
		if err := l.Unlock(); err != nil {
			t.Error(err)
		}
	}
}

func TestAServerThatCannotKeepLocksIsRefused(t *testing.T) {
	t.Parallel()
	fit := testserver.NATS(t)
	for name, f := range map[string]struct {
		addr string
		says string
	}{
		"no JetStream": {testserver.NATSWith(t).Addr(), "jetstream not enabled"},
		"a domain":     {testserver.NATSWith(t, "jetstream { store_dir: data, domain: leaf }").Addr(), `domain "leaf"`},
		"no JetStream for the account": {testserver.NATS(t, `accounts { A: { users: [{user: ana, password: word}] } }`, "no_auth_user: ana").Addr(),
			"jetstream not enabled for account"},
		"too old": {claimsToBe(t, fit.Addr(), "2.10.29"), "2.11 or later"},
	} {
		js := connect(t, f.addr)
		expectError(t, name, lockOn(t, js, defaultBucket), pawl.ErrUnsupported, f.says)
	}
	if _, err := connect(t, fit.Addr()).Stream(t.Context(), natsstore.StreamName(defaultBucket)); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("a bucket was made: %v", err)
	}
	c := openURLs(t, "nats://"+fit.Addr()+"?replicas=3")
	_, err := c.Mutex("name").TryLock(t.Context())
	expectError(t, "replicas", err, nil, "replicas > 1 not supported")
	if errors.Is(err, pawl.ErrUnreachable) {
		t.Error(err)
	}
	js, err := jetstream.NewWithAPIPrefix(connect(t, fit.Addr()).Conn(), "other")
	if err != nil {
		t.Fatal(err)
	}
	expectError(t, "a prefix", lockOn(t, js, defaultBucket), driver.ErrUnsupported, "prefix")
}

func TestWhoOnlyLooksMakesNoBucket(t *testing.T) {
	t.Parallel()
	js := connect(t, testserver.NATS(t).Addr())
	e := New(js)
	defer e.Close()
	for x, err := range e.List(t.Context(), "") {
		t.Error(x, err)
	}
	all, err := e.Line(t.Context(), "name")
	_, version, err2 := e.Load(t.Context(), "name")
	if len(all) > 0 || version != 0 || err != nil || err2 != nil {
		t.Error(all, version, err, err2)
	}
	if _, err := js.Stream(t.Context(), natsstore.StreamName(defaultBucket)); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("a bucket was made: %v", err)
	}
}

// claimsToBe returns an address at which the server says that it has another version.
func claimsToBe(t *testing.T, addr, version string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			go pass(client, addr, version)
		}
	}()
	return ln.Addr().String()
}

// pass forwards a connection until one side ends, with another version wherever the
// server introduces itself: at the beginning, and again when the client is known.
func pass(client net.Conn, addr, version string) {
	defer client.Close()
	server, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client)
		server.Close()
	}()
	from := bufio.NewReader(server)
	for {
		line, err := from.ReadString('\n')
		if strings.HasPrefix(line, "INFO ") {
			line = strings.Replace(line, `"version":"2.15.2"`, `"version":"`+version+`"`, 1)
		}
		if _, failed := io.WriteString(client, line); failed != nil || err != nil {
			return
		}
	}
}
