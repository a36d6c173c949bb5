package main

import (
	"fmt"
	"strings"
	"unicode"
)

// shellWord quotes a text for the line that a person may paste. What could not be seen
// there, or would end the line, is written as the bytes it is, which bash, zsh and ksh
// read.
func shellWord(s string) string {
	harmless := func(r rune) bool {
		return r <= unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_-@%+:,./", r))
	}
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

// operand is a text that is no flag, wherever it is pasted after a verb.
func operand(s string) string {
	if strings.HasPrefix(s, "-") {
		return "-- " + shellWord(s)
	}
	return shellWord(s)
}

// calling begins a line that a person may paste: pawl, with the same -s, unless that
// says more than is shown.
func (a *app) calling(s store) string {
	switch {
	case s.from != "-s":
		return "pawl"
	case a.store == s.shown:
		return "pawl -s " + shellWord(a.store)
	}
	return "pawl -s URL"
}
