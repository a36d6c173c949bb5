package main

import (
	"strings"

	"github.com/pawl-go/pawl/cmd/pawl/internal/claimview"
)

// displayWidth returns an upper bound of the terminal columns that s takes. It
// counts two where fonts and terminals differ, because a line that is cut too short
// does no harm.
func displayWidth(s string) (n int) {
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	if r < 0x1100 || r >= 0x2000 && r < 0x2300 { // below the first wide script; dashes, dots and arrows
		return 1
	}
	return 2
}

// cut shortens s to at most most columns and escapes hidden characters.
func cut(s string, most int) string {
	s = claimview.EscapeHidden(s)
	switch {
	case displayWidth(s) <= most:
		return s
	case most <= 0:
		return ""
	}
	n := 0
	for i, r := range s {
		if n += runeWidth(r); n > most-1 {
			return s[:i] + "…"
		}
	}
	return s
}

// columns aligns rows in columns, except the last one, and escapes hidden
// characters.
func columns(rows [][]string) string {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			cell = claimview.EscapeHidden(cell)
			row[i] = cell
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], displayWidth(cell))
		}
	}
	var out strings.Builder
	for _, row := range rows {
		for i, cell := range row {
			if i == len(row)-1 {
				out.WriteString(cell)
				break
			}
			out.WriteString(cell + strings.Repeat(" ", widths[i]-displayWidth(cell)+2))
		}
		out.WriteByte('\n')
	}
	return out.String()
}
