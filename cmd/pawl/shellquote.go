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
	switch {
	case s != "" && strings.TrimFunc(s, shellSafe) == "":
		return s
	case !hasHidden(s):
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
func shellSafe(r rune) bool {
	return r <= unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_-@%+:,./", r))
}

// operand is a text that is no flag, wherever it is pasted after a verb.
func operand(s string) string {
	if strings.HasPrefix(s, "-") {
		return "-- " + shellWord(s)
	}
	return shellWord(s)
}
