package main

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/pawl-go/pawl/driver"
)

// shellWord quotes a text for the line that a person may paste. What could not be seen
// there, or would end the line, is written as the bytes it is, which bash, zsh and ksh
// read.
func shellWord(s string) string {
	switch {
	case s != "" && strings.TrimFunc(s, harmless) == "":
		return s
	case !hides(s):
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	var b strings.Builder
	b.WriteString("$'")
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\'' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteString("'")
	return b.String()
}

// harmless reports whether a character means itself to every shell.
func harmless(r rune) bool {
	return r <= unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_-@%+:,./", r))
}

// operand is a text that is no flag, wherever it is pasted after a verb.
func operand(s string) string {
	if strings.HasPrefix(s, "-") {
		return "-- " + shellWord(s)
	}
	return shellWord(s)
}

// calling begins a line that a person may paste: pawl, with the same -s, if there is
// nothing in it beyond what is shown of a store anyway.
func (a *app) calling(s store) string {
	if s.from != "-s" {
		return "pawl"
	}
	if s.local != "" {
		return "pawl -s local:"
	}
	whole, err := driver.ParseURL(a.store)
	shown, err2 := driver.ParseURL(s.shown)
	if err != nil || err2 != nil || whole.User != nil || whole.RawQuery != "" || whole.Fragment != "" ||
		[4]string{whole.Scheme, whole.Opaque, whole.Host, whole.Path} != [4]string{shown.Scheme, shown.Opaque, shown.Host, shown.Path} {
		return "pawl -s URL"
	}
	return "pawl -s " + shellWord(s.shown)
}
