package sqlstore

import "time"

// A Param is a named parameter of a statement.
type Param uint8

// The parameters: texts, then integers, then the one blob.
const (
	Name Param = iota
	ID
	Session
	Owner // the process that wrote a row
	Note
	numText

	Try Param = iota - 1
	MaxTry
	Need
	Limit
	Queue
	TTL // microseconds
	Token
	Held
	Version
	Keep // microseconds
	Count
	Now // the clock of expiry, where it is that of the client's kernel: set by the Store
	Wall
	numParam

	Value Param = numParam
)

// The parameters of a statement about many rows, which a Store takes from [Args.List].
const (
	Names Param = numParam + 1 + iota
	IDs
	Tries
	Tokens
	Pairs  // of ID and Try
	Claims // rows of Name, Token, ID and Try
)

var paramNames = map[string]Param{
	"name": Name, "id": ID, "session": Session, "owner": Owner, "note": Note,
	"try": Try, "maxtry": MaxTry, "need": Need, "limit": Limit, "queue": Queue, "ttl": TTL, "token": Token,
	"held": Held, "version": Version, "keep": Keep, "count": Count, "now": Now, "wall": Wall,
	"value": Value, "names": Names, "ids": IDs, "tries": Tries, "tokens": Tokens, "pairs": Pairs, "claims": Claims,
}

// IsText reports whether p is a text.
func (p Param) IsText() bool { return p < numText }

// IsInt reports whether p is an integer.
func (p Param) IsInt() bool { return p >= numText && p < numParam }

// IsList reports whether p is a list.
func (p Param) IsList() bool { return p > numParam }

// Args are the values of parameters. Steps about the same row share them.
type Args struct {
	Text  [numText]string
	Num   [numParam]int64 // those of texts stay 0
	Value []byte
	List  []*Args // the rows that a statement is about, if there are many
}

// Named returns the arguments of a statement about one name.
func Named(key string) *Args {
	a := &Args{}
	a.Text[Name] = key
	return a
}

// Key returns the value of Name.
func (a *Args) Key() string { return a.Text[Name] }

// SetDuration sets an integer to microseconds.
func (a *Args) SetDuration(p Param, d time.Duration) { a.Num[p] = d.Microseconds() }

// Arg returns the value of a parameter that is not a list, for clients that bind by
// type.
func (a *Args) Arg(p Param) any {
	switch {
	case p.IsText():
		return a.Text[p]
	case p.IsInt():
		return a.Num[p]
	}
	return a.Value
}
