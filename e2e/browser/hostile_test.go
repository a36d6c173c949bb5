package browser

import (
	"strings"
	"testing"
)

// Names and notes that would do harm if a page took them for HTML, for a script, for an
// address or for an attribute.
const (
	hostileName = `<script>alert(1)</script>`
	hostileNote = "\x1b]0;owned\x07\x1b[31mred\x1b[0m <img src=x onerror=alert(2)> \u202etxt.exe"
)

// hostileNames are shown as they are.
var hostileNames = []string{
	hostileName,
	`"><img src=x onerror=alert(3)>`,
	`' onmouseover='alert(4)`,
	`javascript:alert(5)`,
	`{{.}} ${alert(6)} </title></style></textarea>`,
	`../../etc/passwd?q=1&amp;name=2#frag %00 %2e`,
}

func TestNamesAndNotesAreText(t *testing.T) {
	eachStore(t, func(t *testing.T, s *store) {
		for _, name := range hostileNames {
			s.hold(hostileNote, name)
		}
		s.queue(hostileNote, hostileName)
		v := s.serveUnlock()
		b := newTab(t)
		b.faults.expect("status of 404") // of a page about what is not there, if any

		b.open(v.lines())
		for _, name := range hostileNames {
			b.awaitShown(name)
		}
		b.checkHarmless("lines")
		b.awaitShown(`\x1b[31mred`)
		b.awaitShown(`<img src=x onerror=alert(2)>`)
		b.awaitShown(`\u202e`)

		links := map[string]string{} // of the page, as they are
		for _, name := range hostileNames {
			links[name] = eval[string](b, `[...document.querySelectorAll("#lines .name a")].find(a => new URL(a.href).searchParams.get("name") === `+quote(name)+`).href`)
		}
		for name, link := range links {
			b.open(link)
			b.await("its holder", `document.querySelector(".holder[data-id]")`)
			b.awaitShown(name)
			b.checkHarmless("page of " + name)
		}
		b.open(v.tree())
		b.awaitShown(hostileName)
		b.checkHarmless("tree")
		b.open(v.holder(s.session(hostileName)))
		b.awaitShown(hostileName)
		b.checkHarmless("holder")
		b.open(v.filter(`"><img src=x onerror=alert(3)>`))
		b.awaitShown(`"><img src=x onerror=alert(3)>`)
		b.checkHarmless("filter")
	})
}

// awaitShown waits until a text is on the page, as a reader sees it.
func (b *tab) awaitShown(text string) {
	b.t.Helper()
	b.await(text, `document.querySelector("main").innerText.includes(`+quote(text)+`)`)
}

// checkHarmless fails the test if the page has something that came from a name or a
// note. A dialog fails it too, see [faults].
func (b *tab) checkHarmless(what string) {
	b.t.Helper()
	if found := b.harm(); len(found) > 0 {
		b.t.Errorf("%s: %s", what, strings.Join(found, "\n"))
	}
}

// harm returns elements and attributes that no page of pawl serve has, and control
// characters.
func (b *tab) harm() []string {
	b.t.Helper()
	return eval[[]string](b, `(() => {
		const found = [];
		for (const e of document.querySelectorAll("*")) {
			if (e.matches("script:not([src]), img[src=x], iframe, object, embed")) found.push(e.outerHTML);
			for (const a of e.attributes) {
				if (a.name.startsWith("on") || a.name === "style" || a.name === "href" && /^\s*(javascript|data):/i.test(a.value)) found.push(a.name + "=" + a.value);
			}
		}
		if (/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e]/.test(document.documentElement.outerHTML)) found.push("a control character");
		return found;
	})()`)
}
