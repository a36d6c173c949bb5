package compare

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// plotsFolder is the folder of the plots, next to the results.
const plotsFolder = "plots"

func plotName(part, row string) string {
	return plotsFolder + "/" + part + "-" + strings.ReplaceAll(row, " ", "-") + ".svg"
}

// WritePlots replaces a part's plots in the folder next to the results.
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

// picture returns the Markdown for a result's plot.
func picture(part string, r *Result) string {
	if r.Plot() == nil {
		return ""
	}
	return fmt.Sprintf("![%s of %s](%s)\n\n", r.Units[0].Name, r.Name, plotName(part, r.Name))
}
