package planted

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultdial"
)

func serve(t testing.TB, bug string) *Server {
	t.Helper()
	server, err := Serve(bug)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Errorf("closing the server: %v", err)
		}
	})
	return server
}

func connect(t testing.TB, server *Server, d driver.Dialer) driver.Engine {
	t.Helper()
	e, err := Connect(driver.WithDialer(t.Context(), d), server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// through returns an open session whose connections go through a link.
func through(t *testing.T, server *Server, link *faultdial.Link) (driver.Engine, driver.Session) {
	t.Helper()
	e := connect(t, server, link.Dial)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("closing the engine: %v", err)
		}
	})
	s, err := e.Open(t.Context(), driver.SessionOptions{ID: t.Name(), TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return e, s
}

func claim(id string) driver.Claim {
	return driver.Claim{ID: id, Try: 1, Name: "name", Need: 1, Limit: 1, Queue: true}
}

func TestACallWhoseReplyIsLostMayBeRepeated(t *testing.T) {
	t.Parallel()
	link := faultdial.New()
	e, s := through(t, serve(t, ""), link)
	link.SwallowReply()
	if _, err := s.Enter(t.Context(), claim("a")); !errors.Is(err, driver.ErrUnreachable) {
		t.Fatalf("Enter without a reply: %v, not ErrUnreachable", err)
	}
	line, err := e.Line(t.Context(), "name")
	if err != nil || len(line) != 1 || !line[0].Held {
		t.Fatalf("the Enter was not carried out: %+v, %v", line, err)
	}
	st, err := s.Enter(t.Context(), claim("a"))
	if err != nil || !st.Held || st.Token != line[0].Fence {
		t.Errorf("the repeated Enter: %+v, %v, not the grant with token %d", st, err, line[0].Fence)
	}
	if n := link.Counts(); n.Dialled != 2 || n.Swallowed != 1 {
		t.Errorf("%+v, not two connections and one reply swallowed", n)
	}
}

func TestACallEndsWithItsContextDuringACut(t *testing.T) {
	t.Parallel()
	link := faultdial.New()
	_, s := through(t, serve(t, ""), link)
	for _, d := range []faultdial.Direction{faultdial.Requests, faultdial.Replies, faultdial.Both} {
		link.Cut(d)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if err := s.Beat(ctx, nil, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Beat with %v cut: %v, not its ctx's error", d, err)
		}
		cancel()
		link.Heal()
		for begun := time.Now(); s.Beat(t.Context(), nil, nil) != nil; { // the first may meet the reset of the old connection
			if time.Since(begun) > time.Minute {
				t.Fatal("no call is answered after the cut")
			}
		}
	}
}

func TestACancelledAwaitEndsAtTheServer(t *testing.T) {
	t.Parallel()
	server := serve(t, "")
	_, s := through(t, server, faultdial.New())
	if _, err := s.Enter(t.Context(), claim("a")); err != nil {
		t.Fatal(err)
	}
	last, err := s.Enter(t.Context(), claim("b"))
	if err != nil || last.Held {
		t.Fatal(last, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := s.Await(ctx, claim("b"), last)
		ended <- err
	}()
	awaitCount(t, server, 1)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Await: %v, not its ctx's error", err)
	}
	awaitCount(t, server, 0)
}

// awaitCount waits until the server has so many Awaits under way.
func awaitCount(t *testing.T, server *Server, want int) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		n := 0
		server.mu.Lock()
		for k := range server.links {
			k.mu.Lock()
			n += len(k.awaits)
			k.mu.Unlock()
		}
		server.mu.Unlock()
		if n == want {
			return
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("%d Awaits are under way, not %d", n, want)
		}
	}
}

func TestErrorsKeepTheirSentinels(t *testing.T) {
	t.Parallel()
	for _, want := range sentinels {
		got := encodeError(errors.Join(errors.New("text"), want)).decode()
		if !errors.Is(got, want) || got.Error() != "text\n"+want.Error() {
			t.Errorf("%v became %v", want, got)
		}
	}
	if err := encodeError(nil).decode(); err != nil {
		t.Errorf("no error became %v", err)
	}
	if err := encodeError(errors.New("other")).decode(); err == nil || err.Error() != "other" {
		t.Errorf("another error became %v", err)
	}
}

func TestBugsHaveNamesAndRules(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, b := range Bugs() {
		if b.Name == "" || names[b.Name] || b.Text == "" || len(b.Rules) == 0 {
			t.Errorf("%+v: incomplete, or its name was given before", b)
		}
		names[b.Name] = true
	}
	if _, err := Serve("no such bug"); err == nil {
		t.Error("an unknown bug is served")
	}
}
