package sqlline

import (
	"context"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// session is one client's claims. It has no life of its own in the store: each claim
// has its expiry, set by Enter and moved by Beat.
type session struct {
	e      *Engine
	id     string
	ttl    time.Duration
	claims *driverkit.Claims[claimState]

	leaveLanes chan struct{} // has room for the batches of LeaveAll
	enterConns int           // how many claims enter the line of one name at a time

	life   context.Context // of inflight batches
	cancel context.CancelFunc

	mu       sync.Mutex             // guards what follows
	chunk    int                    // how many claims a batch of a beat takes
	trip     time.Duration          // what the fastest of them took lately
	inflight map[*inflight]struct{} // batches that enter claims: under way, or of unknown outcome
}

// claimState is what a session knows of one claim.
type claimState struct {
	seen     location
	timedOut bool // the last beat waited for the row until its time was over
	stall    stall
	guard    *guardState // nil until a transaction was guarded by the claim
}

type claimed = driverkit.Claimed[claimState]

// A location is where a claim was last seen, so that a beat finds it by key. It may have
// moved since.
type location struct {
	token   int64
	inHead  bool // in the head row, not in the claim table
	waiting bool // in the claim table, and not granted
}

var (
	_ driver.Multi  = (*session)(nil)
	_ driver.Leaver = (*session)(nil)
)

func newSession(e *Engine, o driver.SessionOptions) *session {
	s := &session{e: e, id: o.ID, ttl: o.TTL, claims: driverkit.NewClaims[claimState](), chunk: beatChunkFirst, inflight: map[*inflight]struct{}{}}
	lanes := leaveLanes
	if e.d.eachStatement() {
		lanes = leaveLanesEach
	}
	s.enterConns = e.d.enterConns()
	s.leaveLanes = make(chan struct{}, lanes)
	s.life, s.cancel = context.WithCancel(context.Background())
	return s
}

func (s *session) TTL() time.Duration     { return s.ttl }
func (s *session) Lost() <-chan struct{}  { return nil }
func (s *session) Ended() <-chan struct{} { return s.claims.Ended() }

// add adds claims that are about to be entered.
func (s *session) add(ctx context.Context, cs ...driver.Claim) error {
	for _, c := range cs {
		if _, _, err := s.claims.Add(ctx, c, claimState{}); err != nil {
			return err
		}
	}
	return nil
}

// saw stores where a claim was seen.
func (s *session) saw(c driver.Claim, at location) {
	granted := false
	s.claims.With(c.ID, c.Try, func(p *claimed) {
		granted = p.State.seen.waiting && !at.waiting
		p.State.seen = at
	})
	if granted {
		s.e.granted(c.ID)
	}
}

// stateOf returns what is known of a claim.
func (s *session) stateOf(c driver.Claim) (st claimState) {
	s.claims.With(c.ID, c.Try, func(p *claimed) { st = p.State })
	return st
}

// args returns the arguments of statements about one claim of the session.
func (s *session) args(c driver.Claim) *sqlstore.Args {
	a := s.e.claimArgs(c)
	a.Text[sqlstore.Session] = s.id
	a.SetDuration(sqlstore.TTL, s.ttl)
	return a
}

// setTimedOut stores whether a beat waited for p's row until its time was over.
func (s *session) setTimedOut(p *beatEntry, timedOut bool) {
	if timedOut == p.timedOut {
		return
	}
	p.timedOut = timedOut
	s.claims.With(p.claim.ID, p.claim.Try, func(have *claimed) { have.State.timedOut = timedOut })
}
