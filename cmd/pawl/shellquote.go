package main

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/pawl-go/pawl/cmd/pawl/internal/claimview"
)

// shellWord quotes s for pasting into a shell. Invisible characters are written as
// octal escapes, which bash, zsh and ksh understand.
func shellWord(s string) string {
	switch {
	case s != "" && strings.TrimFunc(s, shellSafe) == "":
		return s
	case !claimview.HasHidden(s):
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

// shellSafe reports whether no shell interprets the character.
func shellSafe(r rune) bool {
	return r <= unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_-@%+:,./", r))
}

// operand quotes s so that it cannot be taken for a flag.
func operand(s string) string {
	if strings.HasPrefix(s, "-") {
		return "-- " + shellWord(s)
	}
	return shellWord(s)
}
