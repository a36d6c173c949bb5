package main

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// plain writes out what does not show: \x1b, \u202e, \n, and \xff for a byte that is
// no text. A text without such is itself.
func escapeHidden(s string) string {
	if !hasHidden(s) {
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
func hasHidden(s string) bool { return !utf8.ValidString(s) || strings.ContainsFunc(s, hidden) }

// shownName is a name that cannot be taken for another: one that hides something, or
// whose beginning or end is not seen, is in quotes. One that begins with a quote is
// too, so that it is not taken for one of those.
func shownName(name string) string {
	if name == "" || name[0] == '"' || name != strings.TrimSpace(name) || hasHidden(name) {
		return escapeHidden(strconv.Quote(name))
	}
	return name
}
