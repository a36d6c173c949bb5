package browser

import (
	"bytes"
	"image/png"
	"os"
	"path/filepath"
	"testing"
)

// maxPicture is how large a picture in the repository may be.
const maxPicture = 150 << 10

// The pictures of the README. They are taken in any case, and fail the test if they are
// too large for a repository or of one colour; docs/images says how to save them.
func TestPicturesOfABusyStore(t *testing.T) {
	t.Parallel()
	v := busyStore(t).serve()
	b := newTab(t)
	b.scheme("light")
	b.open(v.lines())
	b.await("all lines", `document.querySelectorAll("#lines [data-name]").length === 13`)
	b.fit("#lines > li")
	b.checkPicture("serve-lines")
	b.scheme("dark")
	b.open(v.tree())
	b.await("tree and ring", `document.querySelector("#tree li li") && document.querySelector("svg.ring")`)
	b.fit("#tree > li")
	b.checkPicture("serve-tree")
}

// fit makes the window as high as the elements that fit into 800 pixels.
func (b *tab) fit(selector string) {
	b.t.Helper()
	b.resize(1100, 800)
	b.resize(1100, eval[int64](b, `Math.ceil([...document.querySelectorAll(`+quote(selector)+`)].map(e => e.getBoundingClientRect().bottom).filter(y => y < 800).pop())`))
}

// save leaves a picture of the page in the folder PAWL_SCREENSHOTS, if there is one.
func (b *tab) save(name string) {
	b.t.Helper()
	if os.Getenv("PAWL_SCREENSHOTS") != "" {
		b.write(name, b.picture(true))
	}
}

func (b *tab) write(name string, picture []byte) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(os.Getenv("PAWL_SCREENSHOTS"), name+".png"), picture, 0o644); err != nil {
		b.t.Error(err)
	}
}

// checkPicture takes a picture that can be in the repository, and saves it if the
// environment says where.
func (b *tab) checkPicture(name string) {
	b.t.Helper()
	picture := b.picture(false)
	img, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		b.t.Fatal(err)
	}
	colours := map[any]bool{}
	for x := range img.Bounds().Dx() {
		colours[img.At(x, img.Bounds().Dy()/3)] = true
	}
	if len(picture) > maxPicture || len(colours) < 3 {
		b.t.Errorf("%s: %d bytes, %d colours in a row", name, len(picture), len(colours))
	}
	b.t.Logf("%s: %v, %d bytes", name, img.Bounds().Size(), len(picture))
	if os.Getenv("PAWL_SCREENSHOTS") != "" {
		b.write(name, picture)
	}
}
