package redisline_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// A faulty client loses replies, refuses calls or holds them back.
type faulty struct {
	*interrupter
	lose   bool  // the reply
	refuse error // instead of sending
	delay  bool  // the next call, which arrives when late is called
	late   func() error
}

func (c *faulty) Do(ctx context.Context, call redisclient.Call) (redisclient.Reply, error) {
	if c.refuse != nil {
		return redisclient.Reply{}, c.refuse
	}
	if c.delay {
		c.delay, c.late = false, func() error {
			_, err := redisclient.Run(context.WithoutCancel(ctx), c.interrupter, call)
			return err
		}
		return redisclient.Reply{}, errors.New("connection reset")
	}
	r, err := c.interrupter.Do(ctx, call)
	if c.lose && redisclient.Code(err) == "" {
		return redisclient.Reply{}, errors.New("connection reset")
	}
	return r, err
}

func (c *faulty) DoMany(ctx context.Context, calls []redisclient.Call, out []redisclient.Answer) {
	for i := range calls {
		out[i].Reply, out[i].Err = c.Do(ctx, calls[i])
	}
}

// The first Enter takes effect and its reply is lost; the repeated one, or that of a
// higher Try, is refused. The claim may be in the line, so Close must end it.
func TestARefusedRepetitionDoesNotForgetTheClaim(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for name, try := range map[string]int{"repeated": 1, "higher Try": 2} {
		t.Run(name, func(t *testing.T) {
			c := &faulty{interrupter: &interrupter{c: f.own, scripts: f.scripts}}
			p := newRunOn(f, c, name+":")
			s, err := p.e.Open(t.Context(), driver.SessionOptions{ID: "one", TTL: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			claim := p.claim(1, "w")
			c.lose = true
			if _, err := s.Enter(t.Context(), claim); !errors.Is(err, driver.ErrUnreachable) {
				t.Fatalf("Enter: %v", err)
			}
			if p.keys() != 1 {
				t.Fatal("the first Enter took no effect: the test tests nothing")
			}
			c.lose, c.refuse = false, redisclient.ServerError("OOM command not allowed")
			claim.Try = try
			if _, err := s.Enter(t.Context(), claim); err == nil {
				t.Fatal("the second Enter was not refused")
			}
			c.refuse = nil
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if p.keys() != 0 {
				t.Error("the hold is still there")
			}
		})
	}
}

// An Enter is given up while its request is on its way, and a Leave on another connection
// overtakes it. Close must end what arrives in between, or the name is blocked for a TTL.
func TestAnEnterThatItsLeaveOvertookIsEndedByClose(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, kind := range []string{"w", "r", "p1"} {
		t.Run(kind, func(t *testing.T) {
			c := &faulty{interrupter: &interrupter{c: f.own, scripts: f.scripts}}
			p := newRunOn(f, c, "overtaken "+kind+":")
			s, err := p.e.Open(t.Context(), driver.SessionOptions{ID: "one", TTL: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			claim := p.claim(1, kind)
			c.delay = true
			if _, err := s.Enter(t.Context(), claim); !errors.Is(err, driver.ErrUnreachable) {
				t.Fatalf("Enter: %v", err)
			}
			for range 2 { // the core repeats it
				if err := s.Leave(t.Context(), claim); !errors.Is(err, driver.ErrGone) {
					t.Fatalf("Leave: %v", err)
				}
			}
			if err := c.late(); err != nil {
				t.Fatal(err)
			}
			if p.keys() == 0 {
				t.Fatal("the late request took no effect: the test tests nothing")
			}
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if p.keys() != 0 {
				t.Error("the claim is still there")
			}
		})
	}
}

// A claim whose first Enter is refused is in no line: Close has nothing to end.
func TestARefusedFirstEnterIsForgotten(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	c := &faulty{interrupter: &interrupter{c: f.own, scripts: f.scripts}, refuse: redisclient.ServerError("OOM command not allowed")}
	p := newRunOn(f, c, "first:")
	s, err := p.e.Open(t.Context(), driver.SessionOptions{ID: "one", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Enter(t.Context(), p.claim(1, "w")); err == nil {
		t.Fatal("Enter was not refused")
	}
	c.refuse = errors.New("a call was sent")
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
