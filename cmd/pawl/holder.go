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

// A holder is the process behind a claim, as described by the claim's note.
type holder struct {
	User    string // user@host
	PID     int
	Command string
	Reason  string
}

var noteForm = regexp.MustCompile(`(?s)^(\S+@\S+) pid (\d+) (\S+)(?: \((.*)\))?$`)

// thisProcess returns the holder for this process, running command.
func thisProcess(command, reason string) holder {
	name := userName()
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	word := func(s string) string { return cmp.Or(strings.Join(strings.Fields(s), "_"), "_") }
	return holder{word(name) + "@" + word(host), os.Getpid(), word(filepath.Base(command)), reason}
}

// userName returns the name of the current user. A user without a name, for example
// in a container with an arbitrary user id, is shown as its number: $USER could be
// anything.
func userName() string {
	uid := os.Getuid()
	if uid < 0 { // a system without user ids
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

// note formats the holder as a claim's note. The reason is truncated to fit.
func (h holder) note() string {
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

// parseNote parses a note. A note in another format becomes the reason.
func parseNote(note string) holder {
	m := noteForm.FindStringSubmatch(note)
	if m == nil {
		return holder{Reason: note}
	}
	pid, _ := strconv.Atoi(m[2])
	return holder{m[1], pid, m[3], m[4]}
}

// String describes the holder in a phrase.
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

// brief formats a duration for people: 340ms, 12s, 3m04s, 2h05m.
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

// placeInLine returns the first claim of the name, and how many claims are ahead of
// the one with note.
func placeInLine(ctx context.Context, c *pawl.Client, name, note string) (first *driver.Entry, ahead int) {
	line, err := c.Line(ctx, name)
	if err != nil || len(line) == 0 {
		return nil, -1
	}
	at := slices.IndexFunc(line, func(e driver.Entry) bool { return !e.Held && e.Note == note })
	return &line[0], at
}
