package driver

import (
	"context"
	"iter"
	"time"
)

// All is the limit of a name that readers share and a writer takes whole.
const All = 1 << 30

// MaxNote is the longest note of a claim or a session, in bytes.
const MaxNote = 1 << 10

// MaxRecord is the largest value of a record, in bytes.
const MaxRecord = 64 << 10

// A Claim is one wish to hold units of a name, made by one caller.
type Claim struct {
	ID    string // minted by the core before the first call: every call may be repeated
	Try   int    // from 1; raised by every Enter that follows a Leave: Enter replaces a lower Try of the same ID, Leave ends only Try <= its own
	Name  string
	Need  int // units wanted
	Limit int // units the name has

	Queue   bool   // stand in line; false: hold it now or leave no trace
	Note    string // who and why, for List
	Propose uint64 // a token the engine may raise to, so that a quorum's nodes agree in one round; 0: none
}

// Exclusive reports whether c takes the name whole, so that no other claim can
// be held beside it, whatever the other's Limit.
func (c Claim) Exclusive() bool { return c.Need >= c.Limit }

// A Standing is what an engine answers about one claim.
type Standing struct {
	Held   bool
	Gone   bool          // the engine no longer knows the claim
	Token  uint64        // 0 where the engine has none; below 1<<55
	Ahead  int           // claims ahead in the line, held ones included; -1 unknown
	Holder *Entry        // who is in the way, where the engine learns it for free
	Valid  time.Duration // from just before this call was sent the claim lives at least so long; 0: this call promised nothing new
	Pause  time.Duration // look again no later than this; 0: the engine leaves it to the core
	Epoch  uint64        // quorum only: votes of different epochs are never combined
}

// An Entry is one claim as List shows it.
type Entry struct {
	Claim
	Session string // the ID in SessionOptions
	Held    bool
	Fence   uint64        // 0 while it waits
	Since   time.Duration // how long held or waiting, by the engine's clock
	Left    time.Duration // until expiry; 0 unknown
	Foreign bool          // a hold that is not ours: another client of the plain recipe
}

// SessionOptions say what a session is opened with.
type SessionOptions struct {
	ID   string // minted by the core, never used for another session
	TTL  time.Duration
	Note string // who this is, for operators
}

// A Level says how far an engine's tokens can be trusted.
type Level int

// The levels of fencing.
const (
	None     Level = iota // no tokens: every Token is 0
	Volatile              // tokens may repeat after the store lost data
	Durable               // tokens never repeat
)

// String returns the level's name in lower case.
func (l Level) String() string {
	switch l {
	case None:
		return "none"
	case Volatile:
		return "volatile"
	case Durable:
		return "durable"
	}
	return "unknown"
}

// Features say what an engine can do. What is absent is refused with
// [ErrUnsupported], never approximated.
type Features struct {
	Queue   bool // claims stand in line; without it the core enters again after each Await
	Push    bool // a waiter is told of its turn, it does not look for it
	Shared  bool // readers beside each other
	Count   bool // limits between 1 and All
	Fencing Level

	// BySession says that a claim lives as long as its session, also one that no Beat
	// names. Elsewhere a claim that Beat does not name expires by itself, a TTL after
	// the last call that promised it time.
	BySession bool
}

// An Engine is a store that keeps lines of claims. It is made from the user's
// own client, which it does not close.
type Engine interface {
	Features() Features

	// Open starts a session. What it opens it prolongs only in Beat.
	Open(ctx context.Context, o SessionOptions) (Session, error)

	// List yields the claims, held and waiting, on names that begin with prefix,
	// line by line in the line's order. It takes no locks, may be a little old, and
	// may take as long as the store needs to go through all its keys.
	List(ctx context.Context, prefix string) iter.Seq2[Entry, error]

	// Line returns the claims of one name, in the line's order, as List would show
	// them. It is one step that costs the same however many other names and keys
	// the store has: the core, the recipes and the command ask it while they work,
	// and List only when a person wants to see everything.
	Line(ctx context.Context, name string) ([]Entry, error)

	// Evict breaks exactly the claim that e shows: same name, ID, Try and Token.
	// It answers ErrGone if that claim is no longer there. The holder learns it
	// at its next Beat, at the latest.
	Evict(ctx context.Context, e Entry) error

	// Close ends what the engine started and waits for it; the user's client stays open.
	Close() error
}

// A Session is one client's life in a store: its claims live as long as it is beaten.
type Session interface {
	// TTL is what may be relied on: etcd rounds, ZooKeeper negotiates.
	TTL() time.Duration

	// Enter asks for c in one round trip. It is idempotent on ID and Try and
	// prolongs as the first did. Valid 0 says that the claim lives as long as the
	// session itself, whose own promise (Open, Beat) then counts.
	// ErrGone says that the session has ended; the core opens a new one.
	Enter(ctx context.Context, c Claim) (Standing, error)

	// Await waits until c's turn may have come or it is time to look, after
	// last.Pause or as beats have told since; it looks, and returns where something
	// has changed. It may return early, but it never misses a turn: a turn that
	// came between the call that returned last and this one is seen at once.
	// A claim the engine no longer knows is Gone. Where the engine has no line,
	// Await waits for a hint that the name may be free and promises nothing.
	Await(ctx context.Context, c Claim, last Standing) (Standing, error)

	// Leave gives back units or a place. It is idempotent, ends only Try <= c.Try,
	// and answers ErrGone when it found nothing to end.
	Leave(ctx context.Context, c Claim) error

	// Beat prolongs the session and every claim in live, waiting or held, and
	// answers in out[i] for live[i]; len(out) == len(live). Valid 0 and not Gone:
	// not learnt. A claim that is held is answered with Held and its Token: anything
	// else with Valid is another claim of the same ID. An error does not void what is already in out. Where Enter answers
	// Valid 0, what is promised here to one claim is promised to the session.
	// ErrGone says that the session, and so every claim of it, has ended.
	Beat(ctx context.Context, live []Claim, out []Standing) error

	// Lost is closed when the store itself tells that the session has ended;
	// nil if the engine has no such notice.
	Lost() <-chan struct{}

	// Close ends the session and whatever it still has in line.
	Close(ctx context.Context) error
}

// Multi is an optional interface of a Session: all claims or none, in one
// atomic step, so that two that ask for the same names in opposite orders
// cannot wait for each other.
type Multi interface {
	EnterAll(ctx context.Context, cs []Claim) ([]Standing, error)
}

// Watcher is an optional interface of an Engine: it tells of departures from a
// line to those who have no claim in it. The channel is closed when ctx ends;
// several departures may be told as one.
type Watcher interface {
	Watch(ctx context.Context, name string) (<-chan struct{}, error)
}

// Records is an optional interface of an Engine: small versioned values.
type Records interface {
	// Load returns the value and its version; version 0 says that there is none.
	Load(ctx context.Context, key string) (value []byte, version uint64, err error)

	// Store writes value if the record's version is still ifVersion (0: if there
	// is none) and returns the new version; a nil value deletes and returns 0.
	// It answers ErrConflict, with the version that stands, if another was there.
	// The record ends keep after this call, or never if keep is 0. A version is
	// never used again, not even after the record was deleted or ended.
	// A value of more than MaxRecord bytes is ErrTooLarge.
	Store(ctx context.Context, key string, value []byte, ifVersion uint64, keep time.Duration) (version uint64, err error)
}

// Voter is an optional interface of a Session: what a quorum's node must do
// beyond Enter.
//
// A node votes, that is grants and confirms, only while it is certain that it
// remembers every vote it gave. A node that has no memory of a quorum, because
// it is new or was emptied, and one that was restarted and may have lost the end
// of what it knew, does not vote until Rejoin, nor for a session that enlisted for
// another quorum. On a session that has enlisted, Enter, Confirm and Beat then
// answer [ErrNoVote] and do nothing. A session belongs to the store that it first
// enlisted at: where another one answers, or the same after a restart, they and
// Enlist answer [ErrGone] and do nothing, so that no store votes for two nodes.
//
// A token on a voting node is max(last+1, Claim.Propose), the proposal being cut
// to a second ahead of the node's clock. Its Standing carries the node's epoch.
type Voter interface {
	// Enlist makes this session one of a quorum and tells whether the node votes.
	// list names the quorum's nodes; ErrDenied says that the node serves another.
	Enlist(ctx context.Context, list string) (Membership, error)

	// Confirm raises the node's mark to token if the claim's grant still stands
	// with exactly this try and granted value, and the node's epoch is still the
	// one of the grant. For a claim that is not exclusive, token must besides be
	// the granted value or above the mark, so that no two claims share it. From
	// then on List shows token. It may be repeated.
	Confirm(ctx context.Context, c Claim, granted, token uint64) (bool, error)

	// Mark returns the highest token the node knows, and its epoch, whether or
	// not it votes.
	Mark(ctx context.Context) (high, epoch uint64, err error)

	// Rejoin raises the node's mark to high and its epoch to epoch, and lets a
	// node vote that did not, if it is still in the state that this session's last
	// Enlist has seen or Rejoin has made. ErrConflict: its epoch is not below
	// epoch, another has raised it meanwhile, or it lost its data again.
	Rejoin(ctx context.Context, high, epoch uint64) error
}

// A Membership is what a quorum's node says of itself.
type Membership struct {
	Votes bool
	New   bool          // it remembers nothing of this quorum
	Since time.Duration // how long it has known that it does not vote, by its own clock
	Age   time.Duration // if it is new: for how long it has been there, so that it cannot have lost anything by a restart
	Store string        // names the store that answered: nodes that name the same are one and have one vote; "": unknown
}

// A Grant is a lease as helpers beside the engine see it. Err is nil only while
// the lease is held, computed when asked.
type Grant interface {
	Name() string
	ID() string
	Fence() uint64 // the engine's own token
	Err() error
}

// A Pinner is a Grant whose core may pass a hold on inside the process, with no
// word to the store, and may nest leases in one another: several leases then have
// one hold, one after the other.
type Pinner interface {
	Grant

	// Pin sees to it that the hold is not passed on any more: given back, it goes
	// back to the store. So what is done in the store under this hold from now on
	// cannot meet what a later lease does there, if the store keeps it apart. It
	// fails with what Err returns if the lease has ended. turn is how many leases of
	// the hold had ended when this one began: if it is not 0, the store does not
	// know when that was.
	Pin() (turn int, err error)
}
