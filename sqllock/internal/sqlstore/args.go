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
	Pairs // of ID and Try
)

var paramNames = map[string]Param{
	"name": Name, "id": ID, "session": Session, "owner": Owner, "note": Note,
	"try": Try, "maxtry": MaxTry, "need": Need, "limit": Limit, "queue": Queue, "ttl": TTL, "token": Token,
	"held": Held, "version": Version, "keep": Keep, "count": Count, "now": Now, "wall": Wall,
	"value": Value, "names": Names, "ids": IDs, "tries": Tries, "tokens": Tokens, "pairs": Pairs,
}

// IsText reports whether p is a text.
func (p Param) IsText() bool { return p < numText }

// IsInt reports whether p is an integer.
func (p Param) IsInt() bool { return p >= numText && p < numParam }

// IsList reports whether p is a list.
func (p Param) IsList() bool { return p > numParam }

// Args are the values of parameters. Steps about the same row share them.
type Args struct {
	text [numText]string
	num  [numParam - numText]int64
	blob []byte
	list []*Args
}

// Named returns the arguments of a statement about one name.
func Named(key string) *Args {
	a := &Args{}
	a.text[Name] = key
	return a
}

// Listed returns the arguments of a statement about many rows.
func Listed(rows []*Args) *Args { return &Args{list: rows} }

// SetText sets a text.
func (a *Args) SetText(p Param, v string) { a.text[p] = v }

// Set sets an integer.
func (a *Args) Set(p Param, v int64) { a.num[p-numText] = v }

// SetDuration sets an integer to microseconds.
func (a *Args) SetDuration(p Param, d time.Duration) { a.num[p-numText] = d.Microseconds() }

// SetBlob sets the blob.
func (a *Args) SetBlob(b []byte) { a.blob = b }

// Key returns the value of Name.
func (a *Args) Key() string { return a.text[Name] }

// Text returns the value of a text.
func (a *Args) Text(p Param) string { return a.text[p] }

// Int returns the value of an integer.
func (a *Args) Int(p Param) int64 { return a.num[p-numText] }

// Blob returns the value of the blob.
func (a *Args) Blob() []byte { return a.blob }

// List returns the rows that a statement is about.
func (a *Args) List() []*Args { return a.list }

// Arg returns the value of a parameter that is not a list, for clients that bind by
// type.
func (a *Args) Arg(p Param) any {
	switch {
	case p.IsText():
		return a.text[p]
	case p.IsInt():
		return a.num[p-numText]
	}
	return a.blob
}
