package sqllock

import (
	"context"

	"github.com/pawl-go/pawl/driver"
)

// A flight that beats holds the store for others as long as it takes, so it is
// kept to a few milliseconds.
const beatChunk = 500

// Beat prolongs claims by primary key, a chunk a transaction. Each answers for
// itself, and a chunk that failed does not keep the rest from being tried.
func (s *session) Beat(ctx context.Context, live []driver.Claim, out []driver.Standing) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	var failed error
	for from := 0; from < len(live); from += beatChunk {
		to := min(from+beatChunk, len(live))
		if err := s.beat(ctx, live[from:to], out[from:to]); err != nil {
			failed = err
			if ctx.Err() != nil {
				break
			}
		}
	}
	s.e.sweepSome(ctx)
	return failed
}

func (s *session) beat(ctx context.Context, live []driver.Claim, out []driver.Standing) error {
	f := Flight{Steps: make([]Step, 0, 2*len(live))}
	for i, c := range live {
		a, st := s.args(c), &out[i]
		*st = driver.Standing{}
		if c.Exclusive() { // held in the head row, or still waiting in the line
			f.Steps = append(f.Steps, Step{Query: s.e.q.beatX, Args: a, Row: func(r Row) error {
				var token int64
				err := r.Scan(&token)
				*st = driver.Standing{Held: true, Token: uint64(token), Valid: s.ttl}
				return err
			}})
		}
		f.Steps = append(f.Steps, Step{Query: s.e.q.beat, Args: a, Row: func(r Row) error {
			var held, token int64
			err := r.Scan(&held, &token)
			*st = driver.Standing{Held: held != 0, Ahead: -1, Valid: s.ttl}
			if st.Held {
				st.Token = uint64(token)
			}
			return err
		}})
	}
	if err := s.e.d.Store.Run(ctx, &f); err != nil {
		clear(out) // what was read in a transaction that did not end was not promised
		return err
	}
	for i := range out {
		if out[i].Valid == 0 {
			out[i].Gone = true
			s.ended(live[i])
		}
	}
	return nil
}
