package planted

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// maxSkew is how far the clocks of two clients are apart.
const maxSkew = time.Second

// clientBugs are in the client's own code.
var clientBugs = []bug{
	{
		Bug: Bug{"tokens from the client's clock",
			"A client makes the token of a grant from its own clock, and the clocks of two clients differ.", badTokens},
		client: func(s *remoteSession) driver.Session {
			return &clockSession{remoteSession: s, skew: rand.N(maxSkew), known: map[claimTry]uint64{}}
		},
	},
	{
		Bug: Bug{"beat answered from a cache",
			"A client cannot reach the store, and its beats repeat the last answer that it had, as if that had come now.", twoHolders},
		client: func(s *remoteSession) driver.Session {
			return &cachedSession{remoteSession: s, last: map[claimTry]driver.Standing{}}
		},
	},
	{
		Bug: Bug{"late reply taken for the next one",
			"An Enter is given up before its reply has come; the reply stays in the connection, and the next Enter takes it for its own.", anyGrant},
		mixUp: true,
	},
	{
		Bug: Bug{"connection is not replaced",
			"A client whose connection broke never opens another: its process is locked out, and the others go on.", stuck},
		once: true,
	},
}

// A clockSession makes tokens from a clock that is off by skew.
type clockSession struct {
	*remoteSession
	skew time.Duration

	mu    sync.Mutex // guards known
	known map[claimTry]uint64
}

func (s *clockSession) stamp(c driver.Claim, st driver.Standing) driver.Standing {
	if st.Token != 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		st.Token = remember(s.known, c, func() uint64 { return uint64(time.Now().Add(s.skew).UnixMilli()) })
	}
	return st
}

func (s *clockSession) Enter(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	st, err := s.remoteSession.Enter(ctx, c)
	return s.stamp(c, st), err
}

func (s *clockSession) Await(ctx context.Context, c driver.Claim, last driver.Standing) (driver.Standing, error) {
	st, err := s.remoteSession.Await(ctx, c, last)
	return s.stamp(c, st), err
}

func (s *clockSession) Beat(ctx context.Context, live []driver.Claim, out []driver.Standing) error {
	err := s.remoteSession.Beat(ctx, live, out)
	for i := range out {
		out[i] = s.stamp(live[i], out[i])
	}
	return err
}

// A cachedSession answers beats that fail from what it heard before.
type cachedSession struct {
	*remoteSession

	mu   sync.Mutex // guards last, which is never cleared: such a client does not live long
	last map[claimTry]driver.Standing
}

func (s *cachedSession) Enter(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	st, err := s.remoteSession.Enter(ctx, c)
	return s.granted(c, st), err
}

func (s *cachedSession) Await(ctx context.Context, c driver.Claim, last driver.Standing) (driver.Standing, error) {
	st, err := s.remoteSession.Await(ctx, c, last)
	return s.granted(c, st), err
}

// granted keeps a grant as what the next beat may answer.
func (s *cachedSession) granted(c driver.Claim, st driver.Standing) driver.Standing {
	if st.Held {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.last[claimTry{c.ID, c.Try}] = driver.Standing{Held: true, Token: st.Token, Valid: s.TTL()}
	}
	return st
}

func (s *cachedSession) Beat(ctx context.Context, live []driver.Claim, out []driver.Standing) error {
	err := s.remoteSession.Beat(ctx, live, out)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, c := range live {
		k := claimTry{c.ID, c.Try}
		if err == nil {
			s.last[k] = out[i]
		} else if st, ok := s.last[k]; ok {
			out[i] = st
		}
	}
	return err
}
