package claimview

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// EscapeHidden replaces invisible characters with escapes: \x1b, \u202e, \n, and
// \xff for invalid UTF-8.
func EscapeHidden(s string) string {
	if !HasHidden(s) {
		return s
	}
	var b strings.Builder
	for s != "" {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case !Hidden(r):
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

// Hidden reports whether a character is not visible as itself: it controls the
// terminal, reverses the text direction, or has no width.
func Hidden(r rune) bool {
	if ' ' <= r && r <= '~' { // most characters, and the tables below are slow
		return false
	}
	return !unicode.IsPrint(r) || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// HasHidden reports whether s contains hidden characters.
func HasHidden(s string) bool { return !utf8.ValidString(s) || strings.ContainsFunc(s, Hidden) }

// ShownName returns a name in an unambiguous form: quoted if it has hidden
// characters, or spaces at either end, or begins with a quote itself.
func ShownName(name string) string {
	if name == "" || name[0] == '"' || name != strings.TrimSpace(name) || HasHidden(name) {
		return EscapeHidden(strconv.Quote(name))
	}
	return name
}
