package sqlite

import (
	"context"
	"net/url"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

func init() { driver.Register("sqlite", openURL) }

func openURL(ctx context.Context, u *url.URL) (driver.Engine, error) {
	r := driverkit.ReadURL("sqlite", u)
	path := pathOf(r, u)
	var opts []Option
	if prefix, ok := r.Text("prefix"); ok {
		opts = append(opts, WithPrefix(prefix))
	}
	if r.OneOf("mode", "rw", "ro") == "ro" {
		opts = append(opts, WithReadOnly())
	}
	if r.OneOf("network", "refuse", "allow") == "allow" {
		opts = append(opts, WithNetwork())
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	e, err := Open(ctx, path, opts...)
	if err != nil {
		return nil, err
	}
	return e, nil
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
