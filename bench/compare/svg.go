package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// The dimensions of a plot, in pixels.
const (
	plotNames  = 190 // for the names, left of the bars
	plotBars   = 380
	plotFigure = 90 // for the figures, right of the longest bar
	plotBar    = 18
	plotStep   = 26
	plotHead   = 30
)

// Plot draws the medians of the row's first figure as bars, one per contender. The
// same figures give the same picture. If they differ by more than a factor of a
// hundred, the scale is logarithmic and says so. It is empty if every contender
// failed.
func (r *Result) Plot() []byte {
	type bar struct {
		name   string
		figure float64
	}
	var bars []bar
	for _, c := range r.Who {
		if figure, ok := r.Median(c.Name, 0); ok {
			bars = append(bars, bar{c.Name, figure})
		}
	}
	if len(bars) == 0 {
		return nil
	}
	figures := make([]float64, len(bars))
	for i, b := range bars {
		figures[i] = b.figure
	}
	long, scale := barLength(figures)
	var s strings.Builder
	width, height := plotNames+plotBars+plotFigure, plotHead+plotStep*len(bars)+6
	better := "more is better"
	if r.Units[0].Fewer {
		better = "less is better"
	}
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">`+"\n", width, height, width, height)
	fmt.Fprintf(&s, "<title>%s</title>\n", escape(capital(r.Does)))
	s.WriteString(`<style>
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.head, .figure { fill: #59636e }
.bar { fill: #8c959f }
.ours { fill: #0969da }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc }
.head, .figure { fill: #9198a1 }
.bar { fill: #656c76 }
.ours { fill: #4493f8 }
}
</style>
`)
	fmt.Fprintf(&s, `<text class="head" x="%d" y="18">%s, %s%s</text>`+"\n", plotNames, escape(r.Units[0].Name), better, scale)
	for i, b := range bars {
		top := plotHead + plotStep*i
		class := "bar"
		if strings.HasPrefix(b.name, "pawl") || strings.HasSuffix(b.name, " held") || strings.HasSuffix(b.name, " waiting") {
			class = "ours"
		}
		length := long(b.figure)
		fmt.Fprintf(&s, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", plotNames-8, top+13, escape(b.name))
		fmt.Fprintf(&s, `<rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="2"/>`+"\n", class, plotNames, top, length, plotBar)
		fmt.Fprintf(&s, `<text class="figure" x="%d" y="%d">%s</text>`+"\n", plotNames+length+6, top+13, number(b.figure))
	}
	s.WriteString("</svg>\n")
	return []byte(s.String())
}

// barLength returns a function for the length of a figure's bar, and the
// description of the scale.
func barLength(figures []float64) (long func(float64) int, scale string) {
	most := slices.Max(figures)
	if most <= 0 {
		return func(float64) int { return 1 }, ""
	}
	least := most
	for _, f := range figures {
		if f > 0 {
			least = min(least, f)
		}
	}
	part := func(f float64) float64 { return f / most }
	if most > 100*least {
		// The smallest bar has a tenth of the length, so that it is visible.
		part = func(f float64) float64 {
			if f <= 0 {
				return 0
			}
			return 0.1 + 0.9*math.Log(f/least)/math.Log(most/least)
		}
		scale = ", logarithmic"
	}
	return func(f float64) int { return max(int(math.Round(plotBars*part(f))), 1) }, scale
}

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}
