package compare

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Table writes the result for people, as Markdown that is readable as it is.
func (r *Result) Table(w io.Writer) {
	length := ""
	if r.Length > 0 {
		length = fmt.Sprintf(" of %v", r.Length)
	}
	fmt.Fprintf(w, "### %s\n\n%s. %d rounds each%s, alternating; median (least to most).\n\n",
		r.Name, capital(r.Does), r.rounds(), length)
	lines := [][]string{{"who"}, {"---"}}
	for _, u := range r.Units {
		lines[0] = append(lines[0], u.Name)
		lines[1] = append(lines[1], "--:")
	}
	for _, c := range r.Who {
		line := []string{c.Name}
		if err := r.Failed[c.Name]; err != nil {
			line = append(line, "failed: "+brief(err))
		}
		for i := range r.Units {
			if figures := r.column(c.Name, i); len(figures) > 0 {
				middle, _ := median(figures)
				line = append(line, fmt.Sprintf("%s (%s to %s)",
					number(middle), number(slices.Min(figures)), number(slices.Max(figures))))
			}
		}
		lines = append(lines, line)
	}
	writeTable(w, lines)
	r.writeVerdicts(w)
	fmt.Fprintln(w)
	if r.Others > maxLoad {
		fmt.Fprintf(w, "Disturbed: other programs used up to %.0f %% of the machine during a round.\n\n", 100*r.Others)
	}
}

func (r *Result) writeVerdicts(w io.Writer) {
	verdicts := r.Verdicts()
	if len(verdicts) == 0 {
		return
	}
	lines := [][]string{{"figure", "of", "asked", "found", ""}, {"---", "---", "--:", "--:", "---"}}
	for _, v := range verdicts {
		sign, than, found, mark := "≥ ", "", "unknown", ""
		if v.AtMost {
			sign = "≤ "
		}
		asked := ratio(v.Factor)
		if v.Than != "" {
			than = " × " + v.Than
		}
		if v.Known {
			found = ratio(v.Found)
		}
		if v.Plus != 0 {
			asked, than = v.Than+" + "+number(v.Plus), ""
			if v.Known {
				found = v.Than + " + " + number(v.Found)
			}
		}
		switch {
		case v.Kept:
			mark = "kept"
		case v.Missed():
			mark = "**missed**"
		}
		lines = append(lines, []string{v.Unit.Name, v.Who, sign + asked + than, found, mark})
	}
	fmt.Fprintln(w)
	writeTable(w, lines)
	for _, v := range verdicts {
		if v.Missed() {
			fmt.Fprintf(w, "\n- %s\n", v.Shortfall())
		}
	}
}

// Shortfall says by how much a bound was missed, and why.
func (v Verdict) Shortfall() string {
	asked := v.Factor
	if v.Plus != 0 {
		asked = v.Plus
	}
	text := fmt.Sprintf("%s of %s", v.Unit.Name, v.Who)
	if v.Than != "" {
		text += " beside " + v.Than
	}
	switch {
	case !v.Known:
		text += ": nothing to compare"
	case asked == 0 || v.AtMost && v.Found >= 2*asked:
		text += fmt.Sprintf(": %s where %s is asked", ratio(v.Found), ratio(asked))
	case v.AtMost:
		text += fmt.Sprintf(": %.0f %% more than asked", 100*(v.Found/asked-1))
	default:
		text += fmt.Sprintf(": %.0f %% less than asked", 100*(1-v.Found/asked))
	}
	if v.Why != "" {
		return text + ". " + capital(v.Why) + "."
	}
	return text + "."
}

// Lines writes the result in the format of Go benchmarks, for benchstat: one line
// per contender and round.
func (r *Result) Lines(w io.Writer, part string) {
	for _, c := range r.Who {
		for _, figures := range r.Figures[c.Name] {
			fmt.Fprintf(w, "Benchmark%s/%s/%s 1", capital(part), r.Name, strings.ReplaceAll(c.Name, " ", "-"))
			for i, f := range figures {
				fmt.Fprintf(w, " %s %s", strconv.FormatFloat(f, 'f', -1, 64), r.Units[i].Name)
			}
			fmt.Fprintln(w)
		}
	}
}

func (r *Result) rounds() (n int) {
	for _, figures := range r.Figures {
		n = max(n, len(figures))
	}
	return n
}

// brief shortens an error to one line for a table: many goroutines may have failed.
func brief(err error) string {
	const most = 160
	text := []rune(strings.ReplaceAll(err.Error(), "\n", "; "))
	if len(text) > most {
		text = append(text[:most], '…')
	}
	return strings.ReplaceAll(string(text), "|", "/")
}

// writeTable pads the columns, so that the source is readable too.
func writeTable(w io.Writer, lines [][]string) {
	var widths []int
	for _, line := range lines {
		for i, cell := range line {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	for _, line := range lines {
		for i, width := range widths {
			cell := ""
			if i < len(line) {
				cell = line[i]
			}
			fmt.Fprintf(w, "| %s%s ", cell, strings.Repeat(" ", width-len([]rune(cell))))
		}
		fmt.Fprintln(w, "|")
	}
}

// number formats three significant digits.
func number(f float64) string {
	if f == 0 {
		return "0"
	}
	digits := 2 - int(math.Floor(math.Log10(math.Abs(f))))
	if digits < 0 {
		scale := math.Pow10(-digits)
		return strconv.FormatFloat(math.Round(f/scale)*scale, 'f', 0, 64)
	}
	text := strconv.FormatFloat(f, 'f', digits, 64)
	if digits > 0 {
		text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// ratio formats two decimals below ten, as in the bounds.
func ratio(f float64) string {
	if f >= 10 {
		return number(f)
	}
	return strconv.FormatFloat(f, 'f', 2, 64)
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
