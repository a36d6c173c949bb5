package redisdoctor

import (
	"context"
	"net/url"
	"time"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/redislock/internal/keyspace"
)

// A Voter is a server of a Redlock, with what it knows of its quorum.
type Voter struct {
	Findings []doctor.Finding // about the server alone
	RunID    string           // differs between servers
	History  string           // servers that replicate from each other, or did so last, share it
	Replica  bool
	Uptime   time.Duration
	Prefix   string // of all keys

	// What the server remembers of its quorum; empty if it is new.
	Member     map[string]string
	Restarted  bool          // since it last voted
	Since      time.Duration // for which it has known that it does not vote
	Membership error         // why Member could not be read
}

// ExamineVoter examines a server of a Redlock. The URL is that of the server alone, with
// the scheme redlock; its error says that the server does not answer. It is for package
// redlockdoctor.
func ExamineVoter(ctx context.Context, u *url.URL) (*Voter, error) {
	plain := *u
	plain.Scheme = "redis"
	t, err := parse(ctx, &plain)
	if err != nil {
		return nil, err
	}
	t.url = u
	s, err := connect(ctx, t, t.Client.InitAddress[0])
	if err != nil {
		return nil, err
	}
	defer s.close()
	v := &Voter{
		Findings: s.examine(ctx, voter),
		RunID:    s.info["run_id"], History: s.info["master_replid"], Replica: s.info["role"] == "slave",
		Uptime: time.Duration(s.number("uptime_in_seconds")) * time.Second, Prefix: s.Options.Prefix,
	}
	s.readMember(ctx, v)
	return v, nil
}

// readMember reads what quorum.lua of package redisline describes.
func (s *server) readMember(ctx context.Context, v *Voter) {
	ctx, cancel := context.WithTimeout(ctx, contact)
	defer cancel()
	m, err := s.do(ctx, "HGETALL", keyspace.New(s.Options.Prefix, "", false).Membership())
	if err == nil {
		v.Member, err = m.AsStrMap()
	}
	if err != nil || len(v.Member) == 0 {
		v.Membership = err
		return
	}
	v.Restarted = v.Member["run"] != v.RunID
	now, err := s.do(ctx, "TIME")
	if words, e := now.AsStrSlice(); err == nil && e == nil && len(words) == 2 {
		v.Since = time.Duration(number(words[0])*1000+number(words[1])/1000-number(v.Member["since"])) * time.Millisecond
	}
}
