package dashboard

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/testserver"
	_ "github.com/pawl-go/pawl/redislock/rueidis"
)

// openRedis returns a client of a server.
func openRedis(t *testing.T, server *testserver.Server, note string) *pawl.Client {
	t.Helper()
	c, err := pawl.Open(t.Context(), "redis://"+server.Addr(), pawl.WithNote(note), pawl.WithTTL(5*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

var shownAge = regexp.MustCompile(`held \w+`)

func TestAStoreThatGoesAwayAndComesBack(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	ana := openRedis(t, server, "ana@h pid 1 x")
	hold(t, ana, "deploy")
	s := newSite(t, newMemory(t), func(o *Options) { o.Store = openRedis(t, server, "dash@h pid 2 x") })
	l := s.listen("view=/")
	l.until("ana@h")

	server.Kill()
	away := l.until(`data-state="away"`)
	for _, want := range []string{"ana@h", `class="old"`, "not reachable since <time", "What is shown is old.", "ages stand still"} {
		if !strings.Contains(away, want) {
			t.Errorf("while it is away, the page does not say %q: %s", want, away)
		}
	}
	since := regexp.MustCompile(`<time datetime="[^"]*">`).FindString(away)
	later := away
	for range 3 { // events, about a second apart
		later = l.until(`data-state="away"`)
	}
	if shownAge.FindString(later) != shownAge.FindString(away) || !strings.Contains(later, since) {
		t.Errorf("ages or the beginning of the outage go on:\n%s\n%s", away, later)
	}
	if body := s.get("/metrics", nil).body; !strings.Contains(body, "\npawl_store_reachable 0\n") {
		t.Errorf("metrics:\n%s", body)
	} else {
		checkMetrics(t, body)
	}
	if got := s.get("/api/v1/locks", nil); got.status != 200 || got.header.Get(storeHeader) != "away" || !strings.Contains(got.body, "deploy") {
		t.Errorf("the API: %d %s", got.status, got.body)
	}

	server.Restart() // without its data
	if back := l.until(`data-state="ok"`); !strings.Contains(back, "No lock is held") || strings.Contains(back, `class="old"`) {
		t.Errorf("after it came back: %s", back)
	}
	hold(t, openRedis(t, server, "bo@h pid 3 x"), "deploy")
	l.until("bo@h")
	page := s.get("/name?name=deploy", nil).body
	for _, want := range []string{`class="gap"`, "ana@h pid 1 x held for", "bo@h"} {
		if !strings.Contains(page, want) {
			t.Errorf("the history does not show %q", want)
		}
	}
}

func TestAStoreThatHangsIsAway(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	s := newSite(t, newMemory(t), func(o *Options) { o.Store = openRedis(t, server, "dash@h pid 2 x") })
	l := s.listen("view=/")
	l.until(`data-state="ok"`)
	server.Pause()
	l.until(`data-state="away"`)
	server.Resume()
	l.until(`data-state="ok"`)
}
