package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// A holder is who stands behind a claim, as its note tells it.
type holder struct {
	User    string // user@host
	PID     int
	Command string
	Reason  string
}

var noteForm = regexp.MustCompile(`(?s)^(\S+@\S+) pid (\d+) (\S+)(?: \((.*)\))?$`)

// self is the holder that this process is, running command.
func thisProcess(command, reason string) holder {
	name := userName()
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	word := func(s string) string { return cmp.Or(strings.Join(strings.Fields(s), "_"), "_") }
	return holder{word(name) + "@" + word(host), os.Getpid(), word(filepath.Base(command)), reason}
}

// userName is who we are. A user who has no name, as in a container with a user id of
// its own, goes by the number: the environment's name may be anybody's.
func userName() string {
	uid := os.Getuid()
	if uid < 0 { // no user ids on this system
		if u, err := user.Current(); err == nil && u.Username != "" {
			return u.Username
		}
		return "unknown"
	}
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil && u.Username != "" {
		return u.Username
	}
	return strconv.Itoa(uid)
}

// note is the holder as others will read it; the reason is cut to fit.
func (h holder) note() string {
	s := h.User + " pid " + strconv.Itoa(h.PID) + " " + h.Command
	if h.Reason != "" {
		s += " (" + h.Reason + ")"
	}
	s = strings.ToValidUTF8(s, "\uFFFD") // file names and arguments are only bytes
	if len(s) > driver.MaxNote {
		s = strings.ToValidUTF8(s[:driver.MaxNote-1], "") + ")"
	}
	return s
}

// holderOf reads a note. One of another form is all reason.
func parseNote(note string) holder {
	m := noteForm.FindStringSubmatch(note)
	if m == nil {
		return holder{Reason: note}
	}
	pid, _ := strconv.Atoi(m[2])
	return holder{m[1], pid, m[3], m[4]}
}

// String tells of the holder in one phrase.
func (h holder) String() string {
	s := h.User
	switch {
	case s == "" && h.Reason == "":
		return "somebody"
	case s == "":
		return h.Reason
	}
	return s + " pid " + strconv.Itoa(h.PID) + " " + h.Command
}

// brief is a duration as a person says it: 340ms, 12s, 3m04s, 2h05m.
func brief(d time.Duration) string {
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

// place finds who holds the name, and how many stand before us.
func placeInLine(ctx context.Context, c *pawl.Client, name, note string) (first *driver.Entry, ahead int) {
	line, err := c.Line(ctx, name)
	if err != nil || len(line) == 0 {
		return nil, -1
	}
	at := slices.IndexFunc(line, func(e driver.Entry) bool { return !e.Held && e.Note == note })
	return &line[0], at
}
