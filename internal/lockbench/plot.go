package lockbench

import (
	"fmt"
	"strings"
	"time"
)

// Plot draws the histogram as bars, one line each, of at most columns characters;
// it needs at least 20. mark and unmark surround what is to be coloured; both may
// be empty.
func Plot(h *Histogram, columns int, mark, unmark string) string {
	const rows = 12
	bars := h.Bars(rows)
	highest := 0
	for _, b := range bars {
		highest = max(highest, b.Count)
	}
	// "   123 µs |", the bar, " 100 %".
	room := max(columns-len("  1234 ms |")-len(" 100 %"), 1)
	var out strings.Builder
	for _, b := range bars {
		length := b.Count * room / highest
		bar := strings.Repeat("#", length)
		if length == 0 && b.Count > 0 {
			bar = "." // not zero, but too few for a mark
		}
		if bar != "" {
			bar = mark + bar + unmark
		}
		fmt.Fprintf(&out, "%s |%s%s\n", alignRight(Brief(b.From), 9), bar, percent(b.Count, h.N()))
	}
	return out.String()
}

func percent(n, of int) string {
	p := 100 * float64(n) / float64(of)
	switch {
	case n == 0:
		return ""
	case p < 1:
		return " <1 %"
	}
	return fmt.Sprintf(" %.0f %%", p)
}

// alignRight pads s on the left to width characters.
func alignRight(s string, width int) string {
	return strings.Repeat(" ", max(width-len([]rune(s)), 0)) + s
}

// Brief formats a duration with three digits and one unit.
func Brief(d time.Duration) string {
	f, unit := float64(d), "ns"
	for _, next := range []string{"µs", "ms", "s"} {
		if f < 999.5 {
			break
		}
		f, unit = f/1000, next
	}
	switch {
	case unit == "ns" || f >= 99.95:
		return fmt.Sprintf("%.0f %s", f, unit)
	case f >= 9.995:
		return fmt.Sprintf("%.1f %s", f, unit)
	}
	return fmt.Sprintf("%.2f %s", f, unit)
}
