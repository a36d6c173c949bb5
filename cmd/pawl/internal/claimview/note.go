package claimview

import (
	"strconv"
	"strings"

	"github.com/pawl-go/pawl/driver"
)

// A Holder is the process behind a claim, as described by the claim's note.
type Holder struct {
	User    string // user@host
	PID     int
	Command string
	Reason  string
}

// ParseNote parses a note: "user@host pid 7 command (reason)", where the reason may be
// missing. A note in another format becomes the reason. Notes are long and many, so
// this is no regular expression.
func ParseNote(note string) Holder {
	user, rest, ok := strings.Cut(note, " pid ")
	if !ok || len(user) < 3 || strings.LastIndexByte(user[:len(user)-1], '@') < 1 || strings.ContainsAny(user, space) {
		return Holder{Reason: note}
	}
	number, rest, ok := strings.Cut(rest, " ")
	if !ok || number == "" || strings.Trim(number, "0123456789") != "" {
		return Holder{Reason: note}
	}
	command, reason := rest, ""
	if end := strings.IndexAny(rest, space); end >= 0 {
		command, reason = rest[:end], rest[end:]
		if len(reason) < 3 || !strings.HasPrefix(reason, " (") || !strings.HasSuffix(reason, ")") {
			return Holder{Reason: note}
		}
		reason = reason[2 : len(reason)-1]
	}
	if command == "" {
		return Holder{Reason: note}
	}
	pid, _ := strconv.Atoi(number)
	return Holder{user, pid, command, reason}
}

// space is what separates the words of a note.
const space = "\t\n\f\r "

// Note formats the holder as a claim's note. The reason is truncated to fit.
func (h Holder) Note() string {
	s := h.User + " pid " + strconv.Itoa(h.PID) + " " + h.Command
	if h.Reason != "" {
		s += " (" + h.Reason + ")"
	}
	s = strings.ToValidUTF8(s, "\uFFFD") // file names and arguments may be invalid UTF-8
	if len(s) > driver.MaxNote {
		s = strings.ToValidUTF8(s[:driver.MaxNote-1], "") + ")"
	}
	return s
}

// String describes the holder in a phrase.
func (h Holder) String() string {
	s := h.User
	switch {
	case s == "" && h.Reason == "":
		return "somebody"
	case s == "":
		return h.Reason
	}
	return s + " pid " + strconv.Itoa(h.PID) + " " + h.Command
}
