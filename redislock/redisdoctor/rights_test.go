package redisdoctor_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/internal/doctortest"
	"github.com/pawl-go/pawl/internal/testserver"
)

// documented returns the rights that docs/redis.md lists.
func documented(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^ACL SETUSER app on >password (.*)$`).FindSubmatch(page)
	if m == nil {
		t.Fatal("docs/redis.md has no line that begins with ACL SETUSER app on >password")
	}
	return strings.Fields(string(m[1]))
}

// A user has the documented rights and those with which its server can be examined.
func newUser(t *testing.T, at *console) (rights []string) {
	t.Helper()
	rights = documented(t)
	at.do(slices.Concat([]string{"ACL", "SETUSER", "app", "on", ">secret"}, rights, []string{"+config|get", "+pubsub|numsub"})...)
	return rights
}

func TestTheDocumentedRightsAreEnoughToExamine(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t, durable...)
	at := newConsole(t, s.Addr())
	newUser(t, at)
	store := "redis://app:secret@" + s.Addr()
	clean(t, store)
	at.do("ACL", "SETUSER", "app", "-config|get", "-pubsub|numsub")
	found := doctortest.Examine(t, store)
	f := see(t, found, want{"settings", "", doctor.Warning, "cannot read CONFIG, PUBSUB NUMSUB: NOPERM", "Not checked: persistence, disk writes, min-replicas-to-write, idle timeout.", "ACL SETUSER app +config|get +pubsub|numsub"})
	if n := len(found); doctor.Worst(found) != doctor.Warning || n < 10 {
		t.Errorf("%+v", found)
	}
	at.mend(f, store)
	clean(t, store)
}

// Every right of the documentation is taken away alone, found, and given back by the mend.
func TestEachRightThatIsMissingIsNamed(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t, durable...)
	at := newConsole(t, s.Addr())
	store := "redis://app:secret@" + s.Addr()
	tested := 0
	for _, right := range newUser(t, at) {
		name, ok := strings.CutPrefix(right, "+")
		if !ok || name == "eval" || name == "hello" { // see below; no server refuses HELLO
			continue
		}
		at.do("ACL", "SETUSER", "app", "-"+name)
		f := doctortest.Find(t, doctortest.Examine(t, store), "rights", "")
		level := doctor.Broken
		if slices.Contains([]string{"scan", "info", "ping", "publish", "unsubscribe"}, name) {
			level = doctor.Warning // locks work without them
		}
		if f.Level != level || !strings.Contains(f.Found, "user app lacks "+right) || f.Mend != "ACL SETUSER app "+right {
			t.Errorf("%s: %+v", right, f)
		}
		at.mend(f, store)
		tested++
	}
	if tested < 29 {
		t.Errorf("only %d rights were tested", tested)
	}
	clean(t, store)
}

func TestAUserWithoutScriptsKeysOrChannelsIsFound(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t, durable...)
	at := newConsole(t, s.Addr())
	newUser(t, at)
	store := "redis://app:secret@" + s.Addr()
	for _, test := range []struct {
		take  string
		found string
		mend  string
	}{
		{"-eval", "lacks +eval;", "ACL SETUSER app +eval +evalsha"},
		{"resetkeys", "no right to the keys pawl:*", "ACL SETUSER app ~pawl:*"},
		{"resetchannels", "or the right to the channels &pawl:*", "ACL SETUSER app +publish +subscribe &pawl:*"},
	} {
		at.do("ACL", "SETUSER", "app", test.take)
		f := see(t, doctortest.Examine(t, store), want{"rights", "", doctor.Broken, test.found, "", test.mend})
		at.mend(f, store)
		clean(t, store)
	}
}

func TestWaitNeedsItsRight(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t, durable...)
	at := newConsole(t, s.Addr())
	newUser(t, at)
	store := "redis://app:secret@" + s.Addr() + "?wait=1"
	f := see(t, doctortest.Examine(t, store), want{"rights", "", doctor.Broken, "user app lacks +wait", "denied", "ACL SETUSER app +wait"})
	at.mend(f, store)
	if f := doctortest.Find(t, doctortest.Examine(t, store), "rights", ""); f.Level != doctor.OK {
		t.Errorf("%+v", f)
	}
}
