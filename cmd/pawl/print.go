package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/pawl-go/pawl/driver"
)

// Everything that is printed is printed here. What comes from a store was written by
// anybody who may write to it: it must not command the terminal, nor hide anything
// from whoever reads.

// print writes to standard output. The format is ours; of the arguments everything
// that would not be seen as it is, newlines too, is shown as an escape.
func (a *app) print(format string, args ...any) error {
	_, err := fmt.Fprintf(a.out, format, escaped(args)...)
	return err
}

// show is print for whoever sits at the terminal.
func (a *app) show(format string, args ...any) {
	fmt.Fprintf(a.err, format, escaped(args)...)
}

// say writes one line for the person at the terminal, whatever is in args.
func (a *app) say(format string, args ...any) {
	a.show("pawl: %s\n", userInURL.ReplaceAllStringFunc(fmt.Sprintf(format, args...), hideUser))
}

// printTable writes rows in columns.
func (a *app) printTable(rows [][]string) error {
	return a.printRaw([]byte(columns(rows)))
}

// printRaw writes bytes as they are: a command's own output, or colours of ours.
func (a *app) printRaw(b []byte) error {
	_, err := a.out.Write(b)
	return err
}

// printJSON prints v on lines of its own; an empty list is [], not null.
func (a *app) printJSON(v any) error {
	if list, ok := v.([]claimJSON); ok && list == nil {
		v = []claimJSON{}
	}
	b, err := toJSON(v, "  ")
	if err != nil {
		return err
	}
	return a.printRaw(b)
}

// printJSONLine prints v on one line.
func (a *app) printJSONLine(v any) error {
	b, err := toJSON(v, "")
	if err != nil {
		return err
	}
	return a.printRaw(b)
}

// toJSON is the one way from a value to JSON. What would not be seen is escaped,
// which is the same value for whoever parses it.
func toJSON(v any, indent string) ([]byte, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetIndent("", indent)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	// The encoder has escaped what is below the blank; all beyond is inside strings.
	var out []byte
	for _, r := range b.String() {
		switch {
		case r == '\n' || !hidden(r):
			out = utf8.AppendRune(out, r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out, nil
}

// escaped makes arguments show what is hidden in them.
func escaped(args []any) []any {
	all := make([]any, len(args))
	for i, arg := range args {
		all[i] = escapedArg{arg}
	}
	return all
}

// seen formats a value as it would be, and escapes that.
type escapedArg struct{ v any }

// Format formats the value.
func (s escapedArg) Format(f fmt.State, verb rune) {
	fmt.Fprint(f, escapeHidden(fmt.Sprintf(fmt.FormatString(f, verb), s.v)))
}

// withoutUser finds a URL's user and password. A store's own never get this far;
// this is for one that was typed where none belongs, as for a lock's name.
var userInURL = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^/\s"][^\s"]*@`)

func hideUser(url string) string {
	scheme, user, _ := strings.Cut(url, "://")
	if user == "user:password@" || user == "user@" { // of a message that says what to write
		return url
	}
	return scheme + "://…@"
}

// oneLine joins what cobra and the system put on several lines.
func oneLine(err error) string {
	return strings.ReplaceAll(driver.OneLine(err.Error()), "?; ", "? ") // cobra: did you mean this?
}

// withoutSecrets takes what may be a store's URL out of an error about the command line,
// which repeats what was typed where none belongs, as after -store for --store. Errors
// about a store itself show none.
func redactArguments(code int, text string) string {
	switch code {
	case exitUsage, exitNotExec, exitNotFound:
		return secretLike.ReplaceAllString(text, "…")
	}
	return text
}

// likeURL finds a URL, user:password@host or password=, up to the last @ on the line: a
// password may have a space in it; and what is behind one that a shell has cut there.
var secretLike = regexp.MustCompile(`(?i)[^\s"']*(://|:/|:[^\s"]*@|pass[a-z]*[=:]|pwd[=:])(.*@)?[^\s"]*|[^\s"']*@[^\s"']+`)
