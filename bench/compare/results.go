package compare

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"time"
)

const preamble = `# Results

Written by the command in this folder, not by hand. Contenders take turns within one
run on one machine; compare figures of one table, not of two. A ratio is the median
of the ratios of rounds that were run next to each other.

`

// Section returns a part's results as a section of Markdown.
func Section(part Part, results []Result, when time.Time) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "## %s\n\n- %s\n- %s\n", part.Name, when.Format(time.DateOnly), Machine())
	for _, line := range part.About {
		fmt.Fprintf(&b, "- %s\n", line)
	}
	fmt.Fprintln(&b)
	for _, r := range results {
		r.Table(&b)
		b.WriteString(picture(part.Name, &r))
	}
	return b.Bytes()
}

// Absence returns a section that says why a part could not be measured.
func Absence(part string, why error, when time.Time) []byte {
	return fmt.Appendf(nil, "## %s\n\n- %s\n- not measured: %s\n", part, when.Format(time.DateOnly), brief(why))
}

// WriteSection replaces the section with the same heading in the file, and leaves
// the others unchanged.
func WriteSection(file string, section []byte) error {
	old, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		old, err = []byte(preamble), nil
	}
	if err != nil {
		return err
	}
	return os.WriteFile(file, replaceSection(old, section), 0o644)
}

func replaceSection(text, section []byte) []byte {
	heading, _, _ := strings.Cut(string(section), "\n")
	rest := "\n" + string(text)
	before, after, found := strings.Cut(rest, "\n"+heading+"\n")
	if !found {
		return append(bytes.TrimRight(text, "\n"), append([]byte("\n\n"), section...)...)
	}
	_, next, another := strings.Cut(after, "\n## ")
	out := strings.TrimPrefix(before, "\n") + "\n" + string(section)
	if another {
		out = strings.TrimRight(out, "\n") + "\n\n## " + next
	}
	return []byte(out)
}
