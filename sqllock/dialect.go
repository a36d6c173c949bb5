package sqllock

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A Dialect is what one database adds to the shared statements and the engine.
type Dialect struct {
	Name string // for errors, as in "sqlite: engine is closed"

	// Macros stand in the statements in braces. Wanted are head, claim and record
	// (the tables), now and wall (microseconds: the clock of expiry and the wall
	// clock), mint (a token above all that the store itself knows), max (the
	// greatest of several values) and text (the type that a text is cast to).
	Macros map[string]string

	// Statements replaces shared statements by name; an empty one is left out of
	// every flight.
	Statements map[string]string

	Mark     string // what a parameter begins with: "?" or "$"
	Numbered bool   // a number follows the mark, and a parameter may be used again

	// Cast follows every parameter, where the database would otherwise have to
	// guess its type; nil: nothing does.
	Cast func(Param) string

	// HeadApart makes a name's row in a flight of its own, when the one that
	// needs it found none: where a row that was made in a transaction is a danger
	// to others.
	HeadApart bool

	Store   Store
	Away    bool // beyond a network: what was sent may arrive after its caller has gone
	Fencing driver.Level
	Push    bool // Attend is told of turns, it does not look for them

	// Attend wakes those who wait in this process on what others did, by Wake or
	// Look. The engine starts it once, when somebody waits for the first time,
	// and ends it by its ctx. Wanted tells it when nobody waits any more.
	Attend func(ctx context.Context, w Waiters)

	// Tell sends word to the processes in which these claims wait. It is called
	// after the flight that let them in or ended them, and never for those who
	// wait in this process. What it could not tell it is asked to tell again. Nil:
	// they look by themselves.
	Tell func(ctx context.Context, ids []string) error

	// Hold runs fn with a ctx under which every flight, and Tell, uses one
	// connection, so that what follows from a flight does not wait for another one
	// where the user's work has them all. Its error says that there was no
	// connection, and fn was not run. Nil: each takes its own.
	Hold func(ctx context.Context, fn func(context.Context)) error

	// Guards is how a guard reads and holds a row; nil: there are none.
	Guards *Guards

	// Live names this process in the rows it writes; Census judges the others'.
	// Without them a dead process is noticed only when its claims expire.
	Live   string
	Census Census
}

// A Census knows which processes are dead. What it does not know is alive.
type Census interface {
	// Examine reports whether a process has certainly ended. If so, nobody can
	// come to life under its id until done is called, which says whether any row
	// may still name it; done is nil otherwise.
	Examine(live string) (done func(buried bool), dead bool)
}

// ErrLocked is what a Store's error is if a row is held by a transaction that
// does not end, as by a guard, and the flight was undone.
var ErrLocked = errors.New("row is held by an open transaction")

// A Store runs statements. Its errors are wrapped in the driver's sentinels
// where one fits, and are otherwise raw.
type Store interface {
	// Run carries out a flight: its steps in order, as one transaction, with no
	// decision of the client between them, so that a client that stalls can
	// never sit on a row. A flight of one step is that statement alone. Nothing
	// has been done if a step fails; if the end was not learnt, the error is
	// driver.ErrUnreachable or a raw one.
	Run(ctx context.Context, f *Flight) error

	// Read carries out one statement that only reads. It sees every flight that
	// had ended when it began, and waits for none.
	Read(ctx context.Context, s *Step) error
}

// A Flight is statements that travel together.
type Flight struct {
	Steps   []Step
	Durable bool // survives a power cut once Run has returned
	Beat    bool // keeps claims alive, so it must not wait behind the user's own work
	Waits   bool // a beat that waits for a row others hold: no other beat must wait behind it. There is one at a time
	Reads   bool // changes nothing, and needs no transaction
	Tries   bool // a row that is held for long is answered with ErrLocked, not waited for
	Vetoed  bool // set by Run: a step's veto undid everything
	Missing bool // set by Run: a step found no row to lock, which undid everything
}

// A Step is one statement of a flight.
type Step struct {
	Query *Query
	Args  *Args
	Row   func(Row) error // called for each row; nil: rows are ignored

	// Veto undoes the flight if the first column of its row is 0, or in a dialect
	// with a statement veto if that one fails on purpose. What Row was told stays
	// told.
	Veto bool

	// Locks says that the statement fails on purpose if the name has no row.
	Locks bool
}

// A Row is a result's row; *sql.Rows is one. Scan is given *int64, *string or
// *[]byte for each column.
type Row interface {
	Scan(dest ...any) error
}

// A Query is a statement in the words of one dialect.
type Query struct {
	Name   string
	Text   string
	Params []Param // what is bound, in order
	Index  int     // small and unique within an engine, for a Store's cache
}

// A Param is a named parameter of a statement.
type Param uint8

// The parameters: texts, then integers, then the one blob.
const (
	Name Param = iota
	ID
	SessionID
	Live
	Note
	numText

	Try Param = iota - 1
	Upto
	Need
	Limit
	Queue
	TTL // microseconds
	Token
	Held
	Version
	Keep // microseconds
	Count
	Now // the clock of expiry, where the client's kernel is the judge: filled by the Store
	Wall
	numParam

	Value Param = numParam
)

// The parameters of a statement about many claims, which a Store takes from
// [Args.List].
const (
	Names Param = numParam + 1 + iota
	IDs
	Tries
	Tokens
	Pairs // of ID and Try
)

var paramNames = map[string]Param{
	"name": Name, "id": ID, "session": SessionID, "live": Live, "note": Note,
	"try": Try, "upto": Upto, "need": Need, "limit": Limit, "queue": Queue, "ttl": TTL, "token": Token,
	"held": Held, "version": Version, "keep": Keep, "count": Count, "now": Now, "wall": Wall,
	"value": Value, "names": Names, "ids": IDs, "tries": Tries, "tokens": Tokens, "pairs": Pairs,
}

// IsText reports whether p is a text.
func (p Param) IsText() bool { return p < numText }

// IsInt reports whether p is an integer.
func (p Param) IsInt() bool { return p >= numText && p < numParam }

// IsList reports whether p is of many claims.
func (p Param) IsList() bool { return p > numParam }

// Args are the values of a flight's parameters. All steps that are about one
// claim share them.
type Args struct {
	text [numText]string
	num  [numParam - numText]int64
	blob []byte
	list []*Args
}

// Text returns the value of a text.
func (a *Args) Text(p Param) string { return a.text[p] }

// Int returns the value of an integer.
func (a *Args) Int(p Param) int64 { return a.num[p-numText] }

// Blob returns the value of the blob.
func (a *Args) Blob() []byte { return a.blob }

// List returns the claims that a statement is about, one by one.
func (a *Args) List() []*Args { return a.list }

// Arg returns the value of a parameter that is not of a list, for clients that
// bind by type.
func (a *Args) Arg(p Param) any {
	switch {
	case p.IsText():
		return a.text[p]
	case p.IsInt():
		return a.num[p-numText]
	}
	return a.blob
}

func (a *Args) set(p Param, v int64) { a.num[p-numText] = v }

func (a *Args) setDuration(p Param, d time.Duration) { a.num[p-numText] = d.Microseconds() }
