package sqlite

import (
	"context"
	"net/url"

	"github.com/pawl-go/pawl/driver"
)

func init() { driver.Register("sqlite", openURL) }

func openURL(ctx context.Context, u *url.URL) (driver.Engine, error) {
	var opts []Option
	for key, values := range u.Query() {
		switch value := values[len(values)-1]; {
		case key == "prefix":
			opts = append(opts, WithPrefix(value))
		case key == "mode" && value == "ro":
			opts = append(opts, WithReadOnly())
		case key == "mode":
			return nil, driver.BadURL("sqlite: parameter mode makes no sense: known is ro")
		case key == "network" && value == "allow":
			opts = append(opts, WithNetwork())
		case key == "network":
			return nil, driver.BadURL("sqlite: parameter network makes no sense: known is allow")
		default:
			return nil, driver.BadURL("sqlite: unknown %s (known: prefix, mode, network)", driver.ShowParameter(u, key))
		}
	}
	path := u.Path
	switch {
	case u.Fragment != "":
		return nil, driver.BadURL("sqlite: # begins a fragment in a URL: write %%23")
	case u.User != nil:
		return nil, driver.BadURL("sqlite: a file has no user or password")
	case u.Host != "":
		return nil, driver.BadURL("sqlite: the path begins where a host would stand: write sqlite:///absolute/path or sqlite:relative/path")
	case u.Opaque != "":
		p, err := url.PathUnescape(u.Opaque)
		if err != nil {
			return nil, driver.BadURL("sqlite: the path is not properly escaped")
		}
		path = p
	}
	if path == "" {
		return nil, driver.BadURL("sqlite: the URL has no path: write sqlite:///absolute/path or sqlite:relative/path")
	}
	e, err := Open(ctx, path, opts...)
	if err != nil {
		return nil, err
	}
	return e, nil
}
