package main

import (
	"cmp"
	"context"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/claimview"
	"github.com/pawl-go/pawl/driver"
)

// thisProcess returns the holder for this process, running command.
func thisProcess(command, reason string) claimview.Holder {
	name := userName()
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	word := func(s string) string { return cmp.Or(strings.Join(strings.Fields(s), "_"), "_") }
	return claimview.Holder{User: word(name) + "@" + word(host), PID: os.Getpid(), Command: word(filepath.Base(command)), Reason: reason}
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
