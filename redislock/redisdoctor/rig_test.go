package redisdoctor_test

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/internal/doctortest"
	_ "github.com/pawl-go/pawl/redislock/redisdoctor"
)

func TestMain(m *testing.M) { os.Exit(doctortest.Unapplied(m.Run(), nil)) }

// durable are the settings under which no warning is due.
var durable = []string{"--appendonly", "yes", "--appendfsync", "always"}

// clean fails on every finding that is not ok.
func clean(t *testing.T, store string) []doctor.Finding {
	t.Helper()
	found := doctortest.Examine(t, store)
	doctortest.Clean(t, found)
	return found
}

// A want is the finding that a misconfiguration must give.
type want struct {
	check, node string
	level       doctor.Level
	found       string // a part of it
	meaning     string // a part of it
	mend        string // a part of it
}

// see fails unless the examination has the finding, and returns it.
func see(t *testing.T, found []doctor.Finding, w want) doctor.Finding {
	t.Helper()
	f := doctortest.Find(t, found, w.check, w.node)
	if f.Level != w.level || !strings.Contains(f.Found, w.found) || !strings.Contains(f.Meaning, w.meaning) || !strings.Contains(f.Mend, w.mend) {
		t.Errorf("found %+v\nwant  %+v", f, w)
	}
	return f
}

// A console is a connection for commands of an operator.
type console struct {
	t *testing.T
	c redis.Client
}

func newConsole(t *testing.T, addr string) *console {
	t.Helper()
	c, err := redis.NewClient(redis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true, ConnWriteTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &console{t, c}
}

// do sends a command that must succeed, and returns the reply if it is text.
func (c *console) do(words ...string) string {
	c.t.Helper()
	m, err := c.c.Do(context.Background(), c.c.B().Arbitrary(words...).Build()).ToMessage()
	if err != nil && !redis.IsRedisNil(err) {
		c.t.Fatalf("%s: %v", strings.Join(words, " "), err)
	}
	text, _ := m.ToString()
	return text
}

// mend does what a finding says, and returns the store's URL from then on.
func (c *console) mend(f doctor.Finding, store string) string {
	c.t.Helper()
	doctortest.Applied(f.Check) // its callers look again
	if u, ok := strings.CutPrefix(f.Mend, "-s '"); ok {
		u, _, _ = strings.Cut(u, "'")
		return u
	}
	if strings.HasPrefix(f.Mend, "redis-cli ") {
		shell(c.t, f.Mend)
		return store
	}
	c.do(strings.Fields(f.Mend)...)
	return store
}

// refused is an error reply, as redis-cli prints it.
var refused = regexp.MustCompile(`(?m)^[A-Z]{3,} `)

// shell runs a line that must succeed.
func shell(t *testing.T, line string) {
	t.Helper()
	out, err := exec.Command("sh", "-c", line).CombinedOutput()
	if err != nil || refused.Match(out) {
		t.Fatalf("%s: %v %s", line, err, out)
	}
}

// mended does what a finding says, and fails unless that is gone and nothing is worse but
// the given checks.
func (c *console) mended(store string, w want, but ...string) (mended string) {
	c.t.Helper()
	before := doctortest.Examine(c.t, store)
	mended = c.mend(see(c.t, before, w), store)
	doctortest.Mended(c.t, before, doctortest.Examine(c.t, mended), w.check, w.node, but...)
	return mended
}
