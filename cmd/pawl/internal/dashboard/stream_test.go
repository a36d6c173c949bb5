package dashboard

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A listener is a browser that reads a stream.
type listener struct {
	t      *testing.T
	cancel context.CancelFunc
	events chan string // closed when the stream ends
}

func (s *site) listen(query string) *listener {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, "GET", "http://"+s.addr+"/events?"+query, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		s.t.Fatal(err)
	}
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		s.t.Fatalf("%s: %d %s", query, resp.StatusCode, resp.Header)
	}
	l := &listener{s.t, cancel, make(chan string, 1000)}
	go func() { // ends with the stream; its reader sees that by the closed channel
		defer close(l.events)
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 1<<22)
		var event strings.Builder
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				event.WriteString(data + "\n")
			} else if lines.Text() == "" && event.Len() > 0 {
				l.events <- event.String()
				event.Reset()
			}
		}
	}()
	s.t.Cleanup(l.close)
	return l
}

// close ends the stream as a browser that leaves does.
func (l *listener) close() {
	l.cancel()
	for range l.events {
	}
}

// until reads events until one contains a text, and returns it.
func (l *listener) until(text string) string {
	l.t.Helper()
	after := time.After(testTimeout)
	for {
		select {
		case event, ok := <-l.events:
			if !ok {
				l.t.Fatalf("the stream ended before it said %q", text)
			}
			if strings.Contains(event, text) {
				return event
			}
		case <-after:
			l.t.Fatalf("the stream never said %q", text)
		}
	}
}

func TestAStreamShowsWhatChanges(t *testing.T) {
	t.Parallel()
	s := newSite(t, newMemory(t), nil)
	l := s.listen("view=/")
	if first := l.until(`id="region"`); !strings.Contains(first, "No lock is held") {
		t.Errorf("the first event: %s", first)
	}
	ana, bo := newClient(t, s.store.Engine(), "ana@h pid 1 x"), newClient(t, s.store.Engine(), "bo@h pid 2 x")
	lease := hold(t, ana, "deploy")
	l.until("ana@h pid 1 x")
	queue(t, bo, "deploy")
	if event := l.until("bo@h pid 2 x"); strings.Index(event, "ana@h") > strings.Index(event, "bo@h") {
		t.Errorf("the waiter stands before the holder: %s", event)
	}
	if err := lease.Unlock(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "bo holds", func() bool {
		return !strings.Contains(l.until(`id="region"`), "ana@h")
	})
}

// A waiter on a page that is open appears between two listings.
func TestNamesThatAreLookedAtAreReadBetweenListings(t *testing.T) {
	t.Parallel()
	s := newSite(t, newMemory(t), nil)
	hold(t, newClient(t, s.store.Engine(), "ana@h pid 1 x"), "deploy")
	for _, query := range []string{"view=/", "view=/name&name=deploy"} {
		l := s.listen(query)
		l.until("ana@h")
		before := s.store.lines.Load()
		eventually(t, "the name is read alone", func() bool { return s.store.lines.Load() > before })
		l.close()
	}
	eventually(t, "nobody looks", func() bool { return len(s.d.hub.watched(lookMost)) == 0 })
}

func TestManyBrowsersCauseNoMoreListings(t *testing.T) {
	t.Parallel()
	s := newSite(t, newMemory(t), nil)
	ana := newClient(t, s.store.Engine(), "ana@h pid 1 x")
	for i := range 60 {
		hold(t, ana, fmt.Sprintf("name %02d", i))
	}
	var all []*listener
	for i := range maxStreams {
		all = append(all, s.listen([]string{"view=/", "view=/tree", "view=/&q=name", fmt.Sprintf("view=/name&name=name+%02d", i%60)}[i%4]))
	}
	from, lines := s.store.lists.Load(), s.store.lines.Load()
	start := time.Now()
	eventually(t, "four more listings", func() bool { return s.store.lists.Load() >= from+4 })
	took := time.Since(start)
	if n := s.store.lists.Load() - from; float64(n) > took.Seconds()+1 {
		t.Errorf("%d listings in %v with %d browsers", n, took, len(all))
	}
	s.store.mu.Lock()
	listed := slices.Clone(s.store.listed)
	s.store.mu.Unlock()
	for i := range listed[1:] {
		if apart := listed[i+1].Sub(listed[i]); apart < listInterval-10*time.Millisecond {
			t.Errorf("two listings %v apart", apart)
		}
	}
	// Each look reads at most lookMost names, at most every lookInterval.
	if n, most := s.store.lines.Load()-lines, int64(lookMost*(took/lookInterval+2)); n == 0 || n > most {
		t.Errorf("%d single lines were read in %v, want some and at most %d", n, took, most)
	}
	for _, l := range all {
		l.until(`id="region"`)
	}
	if got := s.get("/events?view=/", nil); got.status != 503 || got.header.Get("Retry-After") == "" {
		t.Errorf("one stream too many: %d %q", got.status, got.body)
	}
	all[0].close()
	eventually(t, "a stream is free again", func() bool { return len(s.d.streams) < maxStreams })
	s.listen("view=/").until(`id="region"`)
}

func TestListingTakesATenthOfTheTime(t *testing.T) {
	t.Parallel()
	for took, want := range map[time.Duration]time.Duration{0: time.Second, 50 * time.Millisecond: time.Second, 100 * time.Millisecond: time.Second, 300 * time.Millisecond: 3 * time.Second, 2 * time.Second: 20 * time.Second} {
		if got := pause(took); got != want {
			t.Errorf("a listing of %v is repeated after %v, want %v", took, got, want)
		}
	}
}

func TestUnknownViewsAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, newMemory(t), nil)
	for _, view := range []string{"", "/unlock", "/metrics", "lines"} {
		if got := s.get("/events?view="+url.QueryEscape(view), nil); got.status != 400 {
			t.Errorf("view %q: %d", view, got.status)
		}
	}
}

// Not parallel: it looks at all goroutines of the process.
func TestNothingIsLeftOfStreams(t *testing.T) {
	s := newSite(t, newMemory(t), nil)
	var all []*listener
	for range 20 {
		all = append(all, s.listen("view=/"))
	}
	for _, l := range all {
		l.until(`id="region"`)
	}
	if n := running("dashboard.(*stream)"); n != 20 {
		t.Fatalf("%d streams are served", n)
	}
	for _, l := range all[:10] {
		l.close()
	}
	eventually(t, "streams end with their browsers", func() bool { return running("dashboard.(*stream)") == 10 })
	if n := len(s.d.streams); n != 10 {
		t.Errorf("%d streams are counted", n)
	}
	start := time.Now()
	s.stop()
	for _, l := range all[10:] {
		for range l.events {
		}
	}
	if took := time.Since(start); took > testTimeout/2 {
		t.Errorf("the end took %v", took)
	}
	eventually(t, "all goroutines end", func() bool { return running("dashboard.(*") == 0 })
}

// running counts the goroutines that run a function.
func running(function string) (n int) {
	buf := make([]byte, 1<<22)
	for _, stack := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(stack, function) {
			n++
		}
	}
	return n
}

// A stream without news says that it is still there, so that proxies keep it open.
func TestAQuietStreamHasAHeartbeat(t *testing.T) {
	t.Parallel()
	s := newSite(t, newMemory(t), func(o *Options) { o.Store = brokenStore{errors.New("no route")} })
	ctx, cancel := context.WithTimeout(t.Context(), 2*testTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", "http://"+s.addr+"/events?view=/", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	events := 0
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), ": ") {
			if events != 1 {
				t.Errorf("%d events of a page that does not change", events)
			}
			return
		}
		if strings.HasPrefix(lines.Text(), "event: ") {
			events++
		}
	}
	t.Error("the stream ended without a heartbeat")
}

// pawl refuses such a name, but whoever can write to the store can write one. The
// form to break a lock has names as they are.
func TestANameCannotEndALineOfAnEvent(t *testing.T) {
	t.Parallel()
	name := "x\revent: region\rdata: <p id=\"region\">owned</p>\r\r\ndata: y\n\nevent: z"
	d := New(Options{Evict: func(context.Context, driver.Entry) error { return nil }})
	event, _ := d.event(&state{snap: snap(time.Now(), held("ana", name, time.Second))}, nameView, url.Values{"name": {name}})
	if !bytes.Contains(event, []byte(`id="unlock"`)) {
		t.Fatal("the form is missing")
	}
	lines := strings.FieldsFunc(string(event), func(r rune) bool { return r == '\r' || r == '\n' })
	if n := strings.Count(string(event), "\n\n"); n != 1 || strings.Contains(string(event), "\r") {
		t.Errorf("%d events", n)
	}
	for i, line := range lines {
		if i > 0 && !strings.HasPrefix(line, "data: ") {
			t.Errorf("line %d: %q", i, line)
		}
	}
}
