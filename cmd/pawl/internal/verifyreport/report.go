// Package verifyreport writes the result of pawl verify as a web page: one file that loads
// nothing else, with the verdict, the rules, and a timeline of what each client did.
//
// The page runs one script and one style sheet, its own, which its content security policy
// names by their hashes. Names, errors and all other text of a run are text there, never
// HTML or script.
package verifyreport

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"html/template"
	"io"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/pagestyle"
	"github.com/pawl-go/pawl/internal/history"
)

// A Run is what the page shows.
type Run struct {
	Store   string // without password
	Version string // of pawl
	Begun   time.Time
	Length  time.Duration // that it lasted
	Cut     string        // why it ended early, as a sentence; "" if it did not
	Faults  []string      // asked for
	Counts  []Count
	History *history.History
	Report  *history.Report
}

// A Count is a number that the page shows with its label.
type Count struct {
	Label string
	N     int
}

// Write writes the page of a run. The same run gives the same bytes.
func Write(w io.Writer, r Run) error {
	if r.History == nil || r.Report == nil {
		return errors.New("a page needs a history and its report")
	}
	p, err := newPage(r)
	if err != nil {
		return err
	}
	return pages.ExecuteTemplate(w, "page.html", p)
}

//go:embed page
var files embed.FS

var pages = template.Must(template.ParseFS(files, "page/*.html"))

// The style sheet and the script of the page, and the policy that allows nothing else. The
// script is a module, so that its names are its own.
var (
	style  = pagestyle.Base + file("style.css")
	script = file("run.js") + file("canvas.js") + file("draw.js") + file("timeline.js") + file("controls.js")
	policy = "default-src 'none'; script-src " + hash(script) + "; style-src " + hash(style) + "; base-uri 'none'; form-action 'none'"

	styleElement  = template.HTML("<style>" + style + "</style>")
	scriptElement = template.HTML(`<script type="module">` + script + "</script>")
)

func file(name string) string {
	b, err := files.ReadFile("page/" + name)
	if err != nil {
		panic(err) // it is embedded
	}
	return string(b)
}

// hash returns the source expression of an inline script or style.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
