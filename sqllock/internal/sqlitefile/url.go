package sqlitefile

import (
	"net/url"

	"github.com/pawl-go/pawl/driverkit"
)

// A Location is what a URL says.
type Location struct {
	Path     string
	Prefix   string
	ReadOnly bool // mode=ro
	Network  bool // network=allow
}

// ParseURL reads a store's URL. Its errors are those of driver.BadURL.
func ParseURL(u *url.URL) (Location, error) {
	r := driverkit.ReadURL("sqlite", u)
	l := Location{Path: pathOf(r, u)}
	l.Prefix, _ = r.Text("prefix")
	l.ReadOnly = r.OneOf("mode", "rw", "ro") == "ro"
	l.Network = r.OneOf("network", "refuse", "allow") == "allow"
	return l, r.Err()
}

// pathOf returns the path of the file.
func pathOf(r *driverkit.URL, u *url.URL) string {
	path := u.Path
	switch {
	case u.User != nil:
		r.Fail("a file has no user or password")
	case u.Host != "":
		r.Fail("the path begins where a host would stand: write sqlite:///absolute/path or sqlite:relative/path")
	case u.Opaque != "":
		var err error
		if path, err = url.PathUnescape(u.Opaque); err != nil {
			r.Fail("the path is not properly escaped")
		}
	}
	if path == "" {
		r.Fail("the URL has no path: write sqlite:///absolute/path or sqlite:relative/path")
	}
	return path
}
