package election_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/election"
	"github.com/pawl-go/pawl/internal/recipetest"
	"github.com/pawl-go/pawl/memlock"
)

// watch hears of leaders: "-" is a vacancy.
func watch(t *testing.T, e *election.Election) <-chan string {
	t.Helper()
	seen := make(chan string, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { // the cleanup waits for it
		defer close(done)
		for l, err := range e.Observe(ctx) {
			switch {
			case err != nil:
			case l.Vacant():
				seen <- "-"
			default:
				seen <- l.Value
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return seen
}

func expect(t *testing.T, seen <-chan string, want ...string) {
	t.Helper()
	if err := next(seen, want...); err != nil {
		t.Fatal(err)
	}
}

// next says what is wrong with what comes next.
func next(seen <-chan string, want ...string) error {
	for _, w := range want {
		select {
		case got := <-seen:
			if got != w {
				return fmt.Errorf("%q is told, not %q", got, w)
			}
		case <-time.After(30 * time.Second):
			return fmt.Errorf("%q is never told", w)
		}
	}
	return nil
}

func campaign(t *testing.T, e *election.Election, value string) *election.Leadership {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	l, err := e.Campaign(ctx, value)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestTheNextInLineLeadsAndObserversSeeIt(t *testing.T) {
	t.Parallel()
	recipetest.Each(t, func(t *testing.T, open recipetest.Opener) {
		here, there, aside := election.New(open(t), "job"), election.New(open(t), "job"), election.New(open(t), "job")
		if _, err := aside.Leader(t.Context()); !errors.Is(err, election.ErrNoLeader) {
			t.Errorf("Leader before anybody campaigned: %v", err)
		}
		seen := watch(t, aside)
		expect(t, seen, "-")
		ana := campaign(t, here, "ana:80")
		expect(t, seen, "ana:80")
		if l, err := aside.Leader(t.Context()); err != nil || l.Value != "ana:80" || l.Token != ana.Token() {
			t.Errorf("Leader: %v, %v; ana's token is %d", l, err, ana.Token())
		}
		bob := make(chan *election.Leadership, 1)
		go func() { bob <- campaign(t, there, "bob:80") }()
		if err := ana.Resign(); err != nil {
			t.Error(err)
		}
		if !errors.Is(context.Cause(ana.Context()), pawl.ErrReleased) {
			t.Errorf("ana's context ended with %v", context.Cause(ana.Context()))
		}
		next := <-bob
		expect(t, seen, "-", "bob:80")
		if next.Token() <= ana.Token() {
			t.Errorf("token %d follows %d", next.Token(), ana.Token())
		}
		if err := next.Resign(); err != nil {
			t.Error(err)
		}
		expect(t, seen, "-")
	})
}

func TestCandidatesOfOneProcessAreApart(t *testing.T) {
	t.Parallel()
	c := recipetest.On("mem:")(t)
	e := election.New(c, "job")
	first := campaign(t, e, "same")
	if _, err := election.New(c, "job", pawl.WithWait(0)).Campaign(t.Context(), "same"); !errors.Is(err, pawl.ErrHeld) {
		t.Errorf("a second candidate: %v", err)
	}
	other := campaign(t, election.New(c, "jo"), "x") // another election, though its name begins the same
	if l, err := election.New(c, "jo").Leader(t.Context()); err != nil || l.Value != "x" {
		t.Errorf("jo is led by %v, %v", l, err)
	}
	_ = first.Resign()
	_ = other.Resign()
}

func TestBadInputIsTheDocumentedError(t *testing.T) {
	t.Parallel()
	c := recipetest.On("mem:")(t)
	if _, err := election.New(c, "").Campaign(t.Context(), "v"); !errors.Is(err, pawl.ErrInvalidName) {
		t.Errorf("no name: %v", err)
	}
	for _, value := range []string{strings.Repeat("x", election.MaxValue+1), "\xff"} {
		if _, err := election.New(c, "e").Campaign(t.Context(), value); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("value %.5q: %v", value, err)
		}
	}
	n := 0
	for _, err := range election.New(c, "a\nb").Observe(t.Context()) {
		if n++; !errors.Is(err, pawl.ErrInvalidName) {
			t.Errorf("Observe of no name: %v", err)
		}
	}
	if n != 1 {
		t.Errorf("Observe of no name yields %d times", n)
	}
	if _, err := election.New(c, "e", pawl.WithTTL(-1)).Campaign(t.Context(), "v"); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("a TTL of less than nothing: %v", err)
	}
}

func ExampleElection_Campaign() {
	ctx := context.Background()
	c := pawl.New(memlock.New())
	defer c.Close()

	e := election.New(c, "scheduler")
	leadership, err := e.Campaign(ctx, "10.0.0.7:8080")
	if err != nil {
		fmt.Println(err)
		return
	}
	leader, err := e.Leader(ctx)
	fmt.Println(leader.Value, leader.Token == leadership.Token(), err)
	fmt.Println(leadership.Resign())
	// Output:
	// 10.0.0.7:8080 true <nil>
	// <nil>
}

func TestTheElectionOfALockIsToldByItsName(t *testing.T) {
	long := strings.Repeat("é", pawl.MaxName)
	for name, want := range map[string]string{"leader": "leader", "a/b c": "a/b c", long: election.New(nil, long).LockName()} {
		lock := election.New(nil, name).LockName()
		if got, ok := election.NameOfLock(lock); !ok || got != want {
			t.Errorf("NameOfLock(%q) = %q, %v, want %q", lock, got, ok, want)
		}
	}
	for _, lock := range []string{"", "leader", "jobs/leader", strings.TrimSuffix(election.New(nil, "x").LockName(), "x")} {
		if got, ok := election.NameOfLock(lock); ok || got != "" {
			t.Errorf("%q is called the lock of election %q", lock, got)
		}
	}
}
