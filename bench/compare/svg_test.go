package compare

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func plotted(figures map[string]float64) Result {
	r := Result{Row: Row{Work: Work{Name: "fixed", Does: "a < b & c", Units: []Unit{{Name: "x/s"}}}}, Figures: map[string][][]float64{}}
	for _, name := range []string{"pawl", "other", "failed"} {
		r.Who = append(r.Who, Contender{Name: name})
		if f, ok := figures[name]; ok {
			r.Figures[name] = [][]float64{{f}}
		}
	}
	return r
}

// wellFormed parses an SVG.
func wellFormed(t *testing.T, svg []byte) {
	t.Helper()
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%v:\n%s", err, svg)
		}
	}
}

func TestAPlotHasABarForEachWhoCameThrough(t *testing.T) {
	t.Parallel()
	r := plotted(map[string]float64{"pawl": 50, "other": 100})
	svg := string(r.Plot())
	wellFormed(t, []byte(svg))
	for _, want := range []string{
		`<rect class="ours" x="190" y="30" width="190"`, `<rect class="bar" x="190" y="56" width="380"`,
		"<title>A &lt; b &amp; c</title>", "x/s, more is better<", "prefers-color-scheme: dark",
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %s in\n%s", want, svg)
		}
	}
	if strings.Contains(svg, "failed") || strings.Count(svg, "<rect") != 2 {
		t.Errorf("who failed has a bar:\n%s", svg)
	}
	if again := plotted(map[string]float64{"pawl": 50, "other": 100}); string(again.Plot()) != svg {
		t.Error("the same figures, another picture")
	}
	if none := plotted(nil); none.Plot() != nil {
		t.Error("a picture of nothing")
	}
}

func TestAPlotOfFarFiguresIsLogarithmic(t *testing.T) {
	t.Parallel()
	for _, figures := range []map[string]float64{{"pawl": 1, "other": 1000}, {"pawl": 0, "other": 0}, {"pawl": 0, "other": 5}} {
		r := plotted(figures)
		svg := string(r.Plot())
		wellFormed(t, []byte(svg))
		if got, want := strings.Contains(svg, "logarithmic"), figures["other"] == 1000; got != want {
			t.Errorf("%v: logarithmic %v", figures, got)
		}
		if strings.Contains(svg, "-9223") || strings.Contains(svg, "NaN") {
			t.Errorf("%v:\n%s", figures, svg)
		}
	}
}

func TestPlotsAreReplacedWithTheirPart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "RESULTS.md")
	r := plotted(map[string]float64{"pawl": 1})
	for _, part := range []string{"redis", "etcd", "redis"} {
		r.Name = part + " row"
		if err := WritePlots(file, Part{Name: part}, []Result{r}); err != nil {
			t.Fatal(err)
		}
		text := string(Section(Part{Name: part}, []Result{r}, time.Now()))
		if !strings.Contains(text, "](plots/"+part+"-"+part+"-row.svg)") {
			t.Errorf("no picture in\n%s", text)
		}
	}
	r.Name = "other"
	if err := WritePlots(file, Part{Name: "redis"}, []Result{r}); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(filepath.Join(dir, "plots"))
	if err != nil || len(files) != 2 || files[0].Name() != "etcd-etcd-row.svg" || files[1].Name() != "redis-other.svg" {
		t.Errorf("%v, %v", files, err)
	}
}

func TestAMissedBoundSaysByHowMuchAndWhy(t *testing.T) {
	t.Parallel()
	for want, v := range map[string]Verdict{
		"x/s of a beside b: 20 % less than asked. The disk is slow.": {Bound: Bound{Who: "a", Than: "b", Factor: 0.5, Why: "the disk is slow"}, Found: 0.4, Known: true},
		"x/s of a beside b: 50 % more than asked.":                   {Bound: Bound{Who: "a", Than: "b", Factor: 2, AtMost: true}, Found: 3, Known: true},
		"x/s of a: 4.00 where 0.00 is asked.":                        {Bound: Bound{Who: "a", AtMost: true}, Found: 4, Known: true},
		"x/s of a beside b: 3000 where 1500 is asked.":               {Bound: Bound{Who: "a", Than: "b", Plus: 1500, AtMost: true}, Found: 3000, Known: true},
		"x/s of a beside b: nothing to compare.":                     {Bound: Bound{Who: "a", Than: "b", Factor: 1}, failed: true},
	} {
		v.Unit = Unit{Name: "x/s"}
		if got := v.Shortfall(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
