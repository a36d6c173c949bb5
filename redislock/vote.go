package redislock

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"github.com/pawl-go/pawl/driver"
)

//go:embed lua/roll.lua
var rollLua string

//go:embed lua/enlist.lua
var enlistLua string

//go:embed lua/rejoin.lua
var rejoinLua string

//go:embed lua/vote.lua
var voteLua string

//go:embed lua/votetake.lua
var votetakeLua string

//go:embed lua/voteagain.lua
var voteagainLua string

//go:embed lua/votelook.lua
var votelookLua string

//go:embed lua/confirm.lua
var confirmLua string

var (
	enlistScript    = newScript(rollLua, enlistLua)
	rejoinScript    = newScript(rollLua, rejoinLua)
	voteScript      = newScript(rollLua, voteLua, votetakeLua, voteagainLua, lineLua, enterLua)
	voteShareScript = newScript(rollLua, voteLua, voteagainLua, lineLua, enterLua)
	voteLookScript  = newScript(rollLua, votelookLua, prolongLua, lineLua, lookLua)
	confirmScript   = newScript(rollLua, confirmLua)
)

// The codes of a node that did not vote, see lua/roll.lua and lua/vote.lua. A
// standing with the first one's number has more words.
const (
	codeSilent = 5
	codeEpoch  = 6
	codeOther  = 7
)

// A ballot is a session's part in a quorum. It stays with the server that the
// session first enlisted at: an address may lead to another one later, and even to
// one that is a node of the quorum by another name, which must not vote twice.
type ballot struct {
	list  string
	run   string // the run id of that server
	life  string // the memory of the node that the last Enlist has seen
	epoch string // the last one heard of
	seen  string // the one that the last Enlist has seen, or Rejoin has made
}

// roll is the key of what the node knows of its quorum.
func (l layout) roll() string { return l.prefix + mark + "q" }

// RunID returns the run id of the server, by which Redis tells itself from every
// other and from what it was before a restart.
func (e *Engine) RunID(ctx context.Context) (string, error) {
	r, err := e.c.Do(ctx, "", []string{"INFO", "server"})
	if err != nil {
		return "", fault(err)
	}
	return infoField(r.Text, "run_id"), nil
}

// Enlist makes the session one of a quorum's. A cluster is no node of one.
func (s *session) Enlist(ctx context.Context, list string) (driver.Membership, error) {
	if err := s.begin(ctx); err != nil {
		return driver.Membership{}, err
	}
	e := s.e
	if e.keys.cluster {
		return driver.Membership{}, fmt.Errorf("redislock: a cluster cannot be one node of a quorum: %w", driver.ErrUnsupported)
	}
	r, err := e.run(ctx, enlistScript, 1, []string{e.keys.roll(), list})
	if err != nil {
		return driver.Membership{}, fault(err)
	}
	if r.Int == 1 {
		return driver.Membership{}, fmt.Errorf("redislock: a quorum's node must be a Redis 7 or newer that shows its run id in INFO: %w", driver.ErrUnsupported)
	}
	if len(r.Array) < 6 {
		return driver.Membership{}, fmt.Errorf("redislock: this node serves a quorum of other nodes, or of the same with another longest ttl (its key is %q): %w", e.keys.roll(), driver.ErrDenied)
	}
	votes, silent, run := r.Array[0].Text, millis(r.Array[1].Int), r.Array[5].Text
	if v := s.ballot(); v != nil && v.run != run {
		return driver.Membership{}, s.elsewhere()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.vote = &ballot{list: list, run: run, life: r.Array[2].Text, epoch: r.Array[3].Text, seen: r.Array[3].Text}
	if votes == "1" {
		return driver.Membership{Votes: true, Store: run}, nil
	}
	return driver.Membership{New: votes == "n", Since: silent, Age: time.Duration(r.Array[4].Int) * time.Second, Store: run}, nil
}

// elsewhere ends a session whose server was restarted or is another one now. What it
// has entered is no longer its own to end: the caller's next session may have
// entered it again.
func (s *session) elsewhere() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.spots)
	return driver.ErrGone
}

// withheld makes sense of what a node answers instead of a vote; nil: it voted.
func (s *session) withheld(r Reply) error {
	switch {
	case len(r.Array) != 1:
	case r.Array[0].Int == codeSilent:
		return driver.ErrNoVote
	case r.Array[0].Int == codeOther:
		return s.elsewhere()
	}
	return nil
}

// Mark returns the fence and the epoch.
func (s *session) Mark(ctx context.Context) (high, epoch uint64, err error) {
	if err := s.begin(ctx); err != nil {
		return 0, 0, err
	}
	e := s.e
	answers := make([]Answer, 2)
	fence := e.keys.fence("")
	e.c.Each(ctx, []Command{{fence, []string{"GET", fence}}, {e.keys.roll(), []string{"HGET", e.keys.roll(), "epoch"}}}, answers)
	if err := driver.Join(answers[0].Err, answers[1].Err); err != nil {
		return 0, 0, fault(err)
	}
	return uint64(count(answers[0].Text)), uint64(count(answers[1].Text)), nil
}

// Rejoin raises mark and epoch, and lets the node vote.
func (s *session) Rejoin(ctx context.Context, high, epoch uint64) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	v := s.ballot()
	if v == nil {
		return driver.ErrConflict
	}
	e := s.e
	r, err := e.run(ctx, rejoinScript, 2, []string{e.keys.roll(), e.keys.fence(""), v.life,
		strconv.FormatUint(high, 10), strconv.FormatUint(epoch, 10), v.seen})
	if err != nil {
		return fault(err)
	}
	if r.Int == 0 {
		return driver.ErrConflict
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v.seen = strconv.FormatUint(epoch, 10)
	return nil
}

// Confirm raises the mark if the grant still stands.
func (s *session) Confirm(ctx context.Context, c driver.Claim, granted, token uint64) (bool, error) {
	if err := s.begin(ctx); err != nil {
		return false, err
	}
	if token >= 1<<53 {
		return false, fmt.Errorf("redislock: token %d is out of range", token)
	}
	e := s.e
	v := s.ballot()
	if v == nil {
		return false, driver.ErrNoVote
	}
	r, err := e.run(ctx, confirmScript, 4, []string{e.keys.hold(c.Name), e.keys.line(c.Name), e.keys.fence(c.Name), e.keys.roll(),
		own(&c), strconv.FormatUint(granted, 10), strconv.FormatUint(token, 10), v.list, v.run})
	if err != nil {
		return false, e.faultAt(c.Name, err)
	}
	return r.Int == 1, s.withheld(r)
}

func (s *session) ballot() *ballot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.vote
}

// looking returns the script of a beat, its keys and what follows them: a node of a
// quorum says nothing of a claim while it does not vote.
func (s *session) looking(at place, own string) (sc *script, keys int, args []string) {
	if v := s.ballot(); v != nil {
		return voteLookScript, 3, []string{at.hold, at.line, s.e.keys.roll(), own, s.millis, "1", v.list, v.run}
	}
	return lookScript, 4, at.keys(own, s.millis, "1")
}

// silent reports whether the node of a quorum does not vote, for a beat that has
// no claim to ask about.
func (s *session) silent(ctx context.Context) error {
	v := s.ballot()
	if v == nil {
		return nil
	}
	roll, err := s.Enlist(ctx, v.list)
	if err == nil && !roll.Votes {
		err = driver.ErrNoVote
	}
	return err
}

// epochs bounds how often a vote is repeated because the node was in another
// epoch than the client knew.
const epochs = 3

// ask is the granting script of a session that votes. A node that is in another
// epoch, or does not vote, has done nothing.
func (s *session) ask(ctx context.Context, c *driver.Claim, v *ballot, args []string) (Reply, uint64, error) {
	e := s.e
	sc := voteScript
	if !c.Exclusive() {
		sc = voteShareScript
	}
	propose := strconv.FormatUint(max(c.Propose, 1), 10)
	for range epochs {
		s.mu.Lock()
		epoch := v.epoch
		s.mu.Unlock()
		words := append(make([]string, 0, len(args)+5), args[:3]...)
		words = append(words, e.keys.roll())
		words = append(words, args[3:]...)
		words[5] = " " + strconv.Itoa(c.Limit) + s.tail + inEpoch(epoch, c.Note)
		r, err := e.run(ctx, sc, 4, append(words, propose, epoch, v.list, v.run))
		if err == nil {
			err = s.withheld(r)
		}
		if err != nil {
			return Reply{}, 0, err
		}
		if len(r.Array) == 2 && r.Array[0].Int == codeEpoch {
			s.mu.Lock()
			v.epoch = r.Array[1].Text
			s.mu.Unlock()
			continue
		}
		return r, uint64(count(epoch)), nil
	}
	return Reply{}, 0, fmt.Errorf("redislock: the node's epoch changed %d times: %w", epochs, driver.ErrNoVote)
}

// stamp stands around what a quorum's node notes of a grant, ahead of its note.
const stamp = "\x03"

func inEpoch(epoch, note string) string { return stamp + epoch + stamp + note }

var stampForm = form("^\x03[0-9]+(,[0-9]+)?\x03")

// unstamped is a note as its claim has it.
func unstamped(note string) string { return note[len(stampForm().FindString(note)):] }

var _ driver.Voter = (*session)(nil)
