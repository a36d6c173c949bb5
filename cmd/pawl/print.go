package main

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"

	"github.com/pawl-go/pawl/cmd/pawl/internal/claimview"
	"github.com/pawl-go/pawl/driver"
)

// All output is printed by this file. Data from a store was written by anyone with
// access to it: it must not control the terminal or hide anything from the reader.

// print writes to standard output. It escapes hidden characters, including
// newlines, in the arguments but not in the format.
func (a *app) print(format string, args ...any) error {
	_, err := fmt.Fprintf(output{a}, format, escaped(args)...)
	return err
}

// show is like print, for standard error.
func (a *app) show(format string, args ...any) {
	fmt.Fprintf(a.err, format, escaped(args)...)
}

// say prints one line to standard error, whatever args contain.
func (a *app) say(format string, args ...any) {
	a.show("pawl: %s\n", userInURL.ReplaceAllStringFunc(fmt.Sprintf(format, args...), hideUser))
}

// printTable prints rows in columns.
func (a *app) printTable(rows [][]string) error {
	return a.printRaw([]byte(columns(rows)))
}

// printRaw writes bytes unchanged: a command's own output, or pawl's colours.
func (a *app) printRaw(b []byte) error {
	_, err := output{a}.Write(b)
	return err
}

// An output is the standard output of an app. It keeps the first error.
type output struct{ *app }

// Write implements io.Writer.
func (o output) Write(b []byte) (int, error) {
	n, err := o.out.Write(b)
	if err != nil {
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			err = e.Err // without the path of standard output
		}
		err = &exitError{exitOutput, fmt.Errorf("standard output: %w", err)}
		if o.unwritten == nil {
			o.unwritten = err
		}
	}
	return n, err
}

// printJSON prints v on several lines.
func (a *app) printJSON(v any) error {
	b, err := claimview.ToJSON(v, "  ")
	if err != nil {
		return err
	}
	return a.printRaw(b)
}

// printJSONLine prints v on one line.
func (a *app) printJSONLine(v any) error {
	b, err := claimview.ToJSON(v, "")
	if err != nil {
		return err
	}
	return a.printRaw(b)
}

// escaped wraps arguments so that their hidden characters are escaped.
func escaped(args []any) []any {
	all := make([]any, len(args))
	for i, arg := range args {
		all[i] = escapedArg{arg}
	}
	return all
}

// An escapedArg formats its value as usual and escapes the result.
type escapedArg struct{ v any }

// Format implements fmt.Formatter.
func (s escapedArg) Format(f fmt.State, verb rune) {
	fmt.Fprint(f, claimview.EscapeHidden(fmt.Sprintf(fmt.FormatString(f, verb), s.v)))
}

// userInURL matches user and password of a URL. A store's own URL never gets this
// far; this is for a URL in the wrong place, for example as a lock's name.
var userInURL = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^/\s"][^\s"]*@`)

func hideUser(url string) string {
	scheme, user, _ := strings.Cut(url, "://")
	if user == "user:password@" || user == "user@" { // of a message that shows the syntax
		return url
	}
	return scheme + "://…@"
}

// oneLine joins the several lines of errors from cobra and the system.
func oneLine(err error) string {
	return strings.ReplaceAll(driver.OneLine(err.Error()), "?; ", "? ") // for cobra's "Did you mean this?"
}

// redactArguments removes possible store URLs from an error about the command line,
// which quotes arguments in the wrong place, for example after -store instead of
// --store. Errors about stores contain no secrets.
func redactArguments(code int, text string) string {
	switch code {
	case exitUsage, exitNotExec, exitNotFound:
		return secretLike.ReplaceAllString(text, "…")
	}
	return text
}

// secretLike matches URLs, user:password@host and password=, up to the last @ of
// the line because a password may contain spaces, and the rest of one that the
// shell has split there.
var secretLike = regexp.MustCompile(`(?i)[^\s"']*(://|:/|:[^\s"]*@|pass[a-z]*[=:]|pwd[=:])(.*@)?[^\s"]*|[^\s"']*@[^\s"']+`)
