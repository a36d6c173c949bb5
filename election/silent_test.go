package election_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/election"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/recipetest"
)

// A program that shows the leader must learn that its view is out of date: the leader
// that was yielded last may be gone for long.
func TestAnObserverIsToldThatTheStoreIsSilent(t *testing.T) {
	t.Parallel()
	recipetest.EachShared(t, func(t *testing.T, s *recipetest.Store) {
		if !s.Served() {
			return // it is a file: it answers
		}
		through, proxies := s.Through(t)
		open := recipetest.On(s.URL)
		one := campaign(t, election.New(open(t), "job"), "one")
		// More than the timeouts of the store's client, one after the other.
		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
		defer cancel()
		shown, silent := "", false
		for l, err := range election.New(through(t), "job").Observe(ctx) {
			switch {
			case err != nil && errors.Is(err, pawl.ErrUnreachable):
				silent = true
				for _, p := range proxies {
					p.Reset()
					p.Heal()
				}
			case err != nil:
				t.Errorf("%v, not ErrUnreachable", err)
			case l.Vacant():
			default:
				shown = l.Value
			}
			if shown == "one" && !silent {
				for _, p := range proxies {
					p.BlackHole(faultproxy.Both)
				}
				if err := one.Resign(); err != nil {
					t.Fatal(err)
				}
				campaign(t, election.New(open(t), "job"), "two")
				shown = ""
			}
			if shown == "two" {
				break
			}
		}
		if !silent || shown != "two" {
			t.Errorf("told that the store is silent: %v; shown at last: %q", silent, shown)
		}
	})
}
