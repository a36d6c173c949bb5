// Package claimview is how the command shows claims to people and programs: the
// schema of --json, notes, names of elections, patterns, and text without hidden
// characters. It neither reads a store nor prints.
package claimview

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/election"
)

// A Claim is one claim in --json: the schema of ls, inspect and watch, and of the web
// page's /api/v1/locks.
type Claim struct {
	Name    string  `json:"name"`
	Mode    string  `json:"mode"`  // exclusive, shared or permits
	State   string  `json:"state"` // held or waiting
	Need    int     `json:"need,omitempty"`
	Limit   int     `json:"limit,omitempty"`
	Token   Token   `json:"token,omitempty"` // decimal digits; absent while waiting
	ID      string  `json:"id"`
	Holder  string  `json:"holder,omitempty"` // user@host
	PID     int     `json:"pid,omitempty"`
	Command string  `json:"command,omitempty"`
	Reason  string  `json:"reason,omitempty"`
	Seconds float64 `json:"seconds"`           // held or waiting for this long
	Left    float64 `json:"left,omitempty"`    // seconds until it expires unless renewed
	Ahead   int     `json:"ahead,omitempty"`   // claims ahead in line, while waiting
	Foreign bool    `json:"foreign,omitempty"` // held by a program that is not pawl

	Election string `json:"election,omitempty"` // the election that its holder leads; name is then the lock behind it
	Value    string `json:"value,omitempty"`    // the candidate's value

	Nodes []string `json:"nodes,omitempty"` // the quorum's nodes that hold it; inspect only
}

// A Token is printed as a string because it exceeds the integers that jq and
// JavaScript represent exactly.
type Token uint64

// MarshalText writes the token in decimal.
func (t Token) MarshalText() ([]byte, error) {
	return strconv.AppendUint(nil, uint64(t), 10), nil
}

// String returns the token in decimal.
func (t Token) String() string { return strconv.FormatUint(uint64(t), 10) }

// New converts an entry that has ahead claims before it. Fence is the engine's own
// token; the token that users see has the pass in its low byte.
func New(e driver.Entry, ahead int) Claim {
	v := Claim{
		Name: e.Name, Mode: "exclusive", State: "waiting", ID: e.ID, Token: Token(e.Fence << 8),
		Seconds: seconds(e.Since), Left: seconds(e.Left), Foreign: e.Foreign,
	}
	if name, ok := election.NameOfLock(e.Name); ok {
		v.Election, v.Value = name, e.Note
	} else {
		who := ParseNote(e.Note)
		v.Holder, v.PID, v.Command, v.Reason = who.User, who.PID, who.Command, who.Reason
	}
	switch {
	case e.Exclusive():
	case e.Limit == driver.All:
		v.Mode = "shared"
	default:
		v.Mode, v.Need, v.Limit = "permits", e.Need, e.Limit
	}
	if e.Held {
		v.State = "held"
	} else {
		v.Ahead = ahead
	}
	return v
}

func seconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }

// ModeShown returns the mode for people: the permits with their limit, and election
// for the lock behind one.
func (v Claim) ModeShown() string {
	switch {
	case v.Election != "":
		return "election"
	case v.Mode == "permits":
		return fmt.Sprintf("%d of %d", v.Need, v.Limit)
	}
	return v.Mode
}

// Title returns the name that users know the lock by, in an unambiguous form.
func (v Claim) Title() string { return ShownName(cmp.Or(v.Election, v.Name)) }

// Subject returns the title, and for elections also their kind.
func (v Claim) Subject() string {
	if v.Election != "" {
		return "election " + v.Title()
	}
	return v.Title()
}

// Who describes the holder or the candidate in a phrase.
func (v Claim) Who() string {
	if v.Election != "" {
		return cmp.Or(v.Value, "somebody")
	}
	return Holder{v.Holder, v.PID, v.Command, v.Reason}.String()
}

// Age is how long the claim has been held or has waited.
func (v Claim) Age() time.Duration { return duration(v.Seconds) }

// Lease is how long the claim lives unless it is renewed.
func (v Claim) Lease() time.Duration { return duration(v.Left) }

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// Brief formats a duration for people: 340ms, 12s, 3m04s, 2h05m.
func Brief(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + "s"
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}
