package dashboard

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"path"

	"github.com/pawl-go/pawl/cmd/pawl/internal/pagestyle"
)

//go:embed pages/*.html
var pageFiles embed.FS

//go:embed assets
var assetFiles embed.FS

// A renderer turns contents into HTML. Templates escape by context, so text of other
// people stays text.
type renderer struct{ pages *template.Template }

func newRenderer() *renderer {
	r := &renderer{}
	// A template cannot choose another one by name itself.
	body := func(c content) (template.HTML, error) {
		var b bytes.Buffer
		err := r.pages.ExecuteTemplate(&b, c.Template, c.Body)
		return template.HTML(b.String()), err
	}
	r.pages = template.Must(template.New("").Funcs(template.FuncMap{"body": body, "text": text}).ParseFS(pageFiles, "pages/*.html"))
	return r
}

// render executes a template.
func (r *renderer) render(name string, data any) ([]byte, error) {
	var b bytes.Buffer
	err := r.pages.ExecuteTemplate(&b, name, data)
	return b.Bytes(), err
}

var assetTypes = map[string]string{
	".css": "text/css; charset=utf-8",
	".js":  "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
}

func serveAsset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	b, err := assetFiles.ReadFile("assets/" + name)
	kind := assetTypes[path.Ext(name)]
	if err != nil || kind == "" {
		http.NotFound(w, r)
		return
	}
	if name == "style.css" {
		b = append([]byte(pagestyle.Base), b...)
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(b)
}
