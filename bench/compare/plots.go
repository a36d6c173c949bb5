package contest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// plotsFolder is where the plots are, beside the results.
const plotsFolder = "plots"

func plotName(part, row string) string {
	return plotsFolder + "/" + part + "-" + strings.ReplaceAll(row, " ", "-") + ".svg"
}

// WritePlots writes a part's plots into the folder beside the file of results, in place
// of those it had there.
func WritePlots(file string, part Part, results []Result) error {
	folder := filepath.Join(filepath.Dir(file), plotsFolder)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(folder, part.Name+"-*.svg"))
	errs := []error{err}
	for _, name := range old {
		errs = append(errs, os.Remove(name))
	}
	for _, r := range results {
		if plot := r.Plot(); plot != nil {
			name := filepath.Join(filepath.Dir(file), filepath.FromSlash(plotName(part.Name, r.Name)))
			errs = append(errs, os.WriteFile(name, plot, 0o644))
		}
	}
	return errors.Join(errs...)
}

// picture refers to a result's plot.
func picture(part string, r *Result) string {
	if r.Plot() == nil {
		return ""
	}
	return fmt.Sprintf("![%s of %s](%s)\n\n", r.Units[0].Name, r.Name, plotName(part, r.Name))
}
