package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
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
	a.show("pawl: %s\n", withoutUser.ReplaceAllStringFunc(fmt.Sprintf(format, args...), hideUser))
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
	if list, ok := v.([]claimView); ok && list == nil {
		v = []claimView{}
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
		all[i] = seen{arg}
	}
	return all
}

// seen formats a value as it would be, and escapes that.
type seen struct{ v any }

// Format formats the value.
func (s seen) Format(f fmt.State, verb rune) {
	fmt.Fprint(f, plain(fmt.Sprintf(fmt.FormatString(f, verb), s.v)))
}

// plain writes out what does not show: \x1b, \u202e, \n, and \xff for a byte that is
// no text. A text without such is itself.
func plain(s string) string {
	if !hides(s) {
		return s
	}
	var b strings.Builder
	for s != "" {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case !hidden(r):
			b.WriteRune(r)
		case r > 0xFFFF:
			fmt.Fprintf(&b, `\U%08x`, r)
		case unicode.IsPrint(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
		s = s[n:]
	}
	return b.String()
}

// hidden reports whether a character is not seen as itself: it commands the terminal,
// turns the text around, or takes no room.
func hidden(r rune) bool {
	return !unicode.IsPrint(r) || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// hides reports whether there is anything in a text that does not show.
func hides(s string) bool { return !utf8.ValidString(s) || strings.ContainsFunc(s, hidden) }

// shownName is a name that cannot be taken for another: one that hides something, or
// whose beginning or end is not seen, is in quotes. One that begins with a quote is
// too, so that it is not taken for one of those.
func shownName(name string) string {
	if name == "" || name[0] == '"' || name != strings.TrimSpace(name) || hides(name) {
		return plain(strconv.Quote(name))
	}
	return name
}
