package redisdoctor

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/redislock/internal/keyspace"
	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// clock compares the server's clock with ours.
func clock(ctx context.Context, s *server) doctor.Finding {
	return doctor.Clock(ctx, "When this clock is corrected forward, the server expires locks that are held; tokens follow it after a loss of data.",
		"chronyc makestep # while no lock is held", func(ctx context.Context) (time.Time, error) {
			m, err := s.do(ctx, "TIME")
			if err != nil {
				return time.Time{}, err
			}
			words, err := m.AsStrSlice()
			if err == nil && len(words) != 2 {
				err = fmt.Errorf("TIME answers %q", words)
			}
			if err != nil {
				return time.Time{}, err
			}
			return time.Unix(number(words[0]), number(words[1])*1000), nil
		})
}

// roundTrip measures a PING.
func roundTrip(ctx context.Context, s *server) doctor.Finding {
	return doctor.RoundTrip(ctx, "redis-cli -h "+host(s.addr)+" -p "+port(s.addr)+" --latency", func(ctx context.Context) error {
		_, err := s.do(ctx, "PING")
		if redisclient.Code(err) == "NOPERM" {
			return nil // that is an answer too
		}
		return err
	})
}

// scripts says whether the server runs scripts.
func scripts(ctx context.Context, s *server) doctor.Finding {
	const check = "scripts"
	if s.Options.WithoutScripts {
		return doctor.Good(check, "not used: the URL says scripts=never")
	}
	_, err := s.do(ctx, "EVAL", "return 1", "0")
	if err == nil {
		return doctor.Good(check, "allowed")
	}
	mend := "sed -i '/^ *rename-command  *EVAL/Id' redis.conf # and restart the server"
	if redisclient.Code(err) == "NOPERM" {
		mend = s.setUser("+eval", "+evalsha")
	}
	found := fmt.Sprintf("EVAL is refused: %v", err)
	if s.ProbeScripts && s.compares(ctx) {
		return doctor.Warn(check, found, "Locks have no line, no sharing, no permits and no token.", mend)
	}
	return doctor.Break(check, found, "No lock can be taken.", mend)
}

// compares reports whether the server has commands that compare a value, and the user may
// run them. Like the engine, it tries them on a key that does not exist, where they do
// nothing.
func (s *server) compares(ctx context.Context) bool {
	key := keyspace.New(s.Options.Prefix, "", false).Probe()
	for _, words := range [][]string{{"DELIFEQ", key, "probe"}, {"DELEX", key, "IFEQ", "probe"}, {"CAD", key, "probe"}} {
		if _, err := s.do(ctx, words...); err == nil {
			return true
		}
	}
	return false
}

func milliseconds(text string) time.Duration { return time.Duration(number(text)) * time.Millisecond }
