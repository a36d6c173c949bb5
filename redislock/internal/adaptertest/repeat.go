package adaptertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
)

// containing selects requests that contain a word; libraries differ in capitals.
func containing(word string) faultproxy.SwallowOption {
	return faultproxy.Matching(func(request []byte) bool { return bytes.Contains(bytes.ToUpper(request), []byte(word)) })
}

// scripts counts how often clients have run scripts by digest.
func (c console) scripts() (n int) {
	_, rest, _ := strings.Cut(c.do("INFO", "commandstats"), "cmdstat_evalsha:calls=")
	_, _ = fmt.Sscan(strings.Split(rest, ",")[0], &n) // 0 if there was none
	return n
}

func retriesNoLock(t *testing.T, connect Adapter) {
	s := testserver.Redis(t)
	at := newConsole(t, s.Addr())
	p := faultproxy.New(t, s.Addr())
	one := session(t, connect(t, Config{Addrs: []string{p.Addr()}}), time.Minute)
	for i := range 20 { // on whichever connection it is sent
		if _, err := one.Enter(t.Context(), mutex("aa", "warm")); err != nil {
			t.Fatal(err)
		}
		if err := one.Leave(t.Context(), mutex("aa", "warm")); err != nil {
			t.Fatal(err)
		}
		before := at.scripts()
		p.SwallowReplies(1, faultproxy.ThenCut(), containing("EVALSHA"))
		st, err := one.Enter(t.Context(), mutex(fmt.Sprintf("%x", i+1), "job"))
		if !errors.Is(err, driver.ErrUnreachable) {
			t.Fatalf("Enter, the reply to which was lost: %+v, %v, not ErrUnreachable", st, err)
		}
		if n := at.scripts() - before; n != 1 {
			t.Fatalf("Enter was sent %d times", n)
		}
		p.Heal()
		if err := one.Leave(t.Context(), mutex(fmt.Sprintf("%x", i+1), "job")); err != nil {
			t.Fatalf("Leave of what was entered without an answer: %v", err)
		}
	}
}

// A scan only reads, so a client that repeats such commands repeats it.
func retriesScan(t *testing.T, connect Adapter) {
	p := faultproxy.New(t, testserver.Redis(t).Addr())
	e := connect(t, Config{Addrs: []string{p.Addr()}})
	if _, err := session(t, e, time.Minute).Enter(t.Context(), mutex("aa", "held")); err != nil {
		t.Fatal(err)
	}
	p.SwallowReplies(1, faultproxy.ThenCut(), containing("SCAN"))
	n := 0
	for _, err := range e.List(t.Context(), "") {
		if n++; err != nil {
			t.Error(err)
		}
	}
	if n != 1 || p.Swallowed() != 1 {
		t.Errorf("%d of one claim; %d replies were lost", n, p.Swallowed())
	}
}

// Also if the connection has to be made first, and the server accepts it but never replies.
func comesBack(t *testing.T, connect Adapter) {
	s := testserver.Redis(t)
	for _, connected := range []bool{true, false} {
		p := faultproxy.New(t, s.Addr())
		e, unused := connect(t, Config{Addrs: []string{p.Addr()}}), connect(t, Config{Addrs: []string{p.Addr()}})
		one := session(t, e, time.Minute)
		if _, err := one.Enter(t.Context(), mutex("aa", "held")); err != nil {
			t.Fatal(err)
		}
		p.BlackHole(faultproxy.Both)
		if !connected {
			p.Reset()
		}
		calls := map[string]func(context.Context) error{
			"Enter": func(ctx context.Context) error { _, err := one.Enter(ctx, mutex("bb", "job")); return err },
			"Leave": func(ctx context.Context) error { return one.Leave(ctx, mutex("aa", "held")) },
			"Beat": func(ctx context.Context) error {
				return one.Beat(ctx, []driver.Claim{mutex("aa", "held")}, make([]driver.Standing, 1))
			},
			"Evict": func(ctx context.Context) error {
				return e.Evict(ctx, driver.Entry{Claim: mutex("aa", "held"), Held: true})
			},
			"List": func(ctx context.Context) (err error) {
				for _, err = range e.List(ctx, "") {
				}
				return err
			},
			"Open": func(ctx context.Context) error { // the first one, which asks for the eviction policy
				_, err := unused.Open(ctx, driver.SessionOptions{ID: "another", TTL: time.Minute})
				return err
			},
		}
		for name, call := range calls {
			for _, want := range []error{context.Canceled, context.DeadlineExceeded} {
				t.Run(fmt.Sprintf("%s connected %t %v", name, connected, want), func(t *testing.T) {
					endsWithCtx(t, call, want)
				})
			}
		}
		p.Reset() // otherwise Close would wait for replies
		p.Heal()
	}
}

// endsWithCtx makes a call that gets no answer, with a ctx that ends with want.
func endsWithCtx(t *testing.T, call func(context.Context) error, want error) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	if want == context.DeadlineExceeded {
		ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	} else {
		time.AfterFunc(50*time.Millisecond, cancel)
	}
	defer cancel()
	start := time.Now()
	err := call(ctx)
	for errors.Is(err, driver.ErrUnreachable) && ctx.Err() == nil { // it used a connection that was reset
		err = call(ctx)
	}
	if !errors.Is(err, want) {
		t.Errorf("%v, not ctx's error", err)
	}
	if took := time.Since(start); took > soon/2 {
		t.Errorf("it came back after %v", took)
	}
}
