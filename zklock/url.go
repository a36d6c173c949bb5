package zklock

import (
	"context"
	"net/url"
	"strings"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

func init() { driver.Register("zk", openURL) }

const defaultPort = "2181"

// openURL opens zk://[user:password@]host[:port][,host[:port]...][/path], with the
// parameters acl=creator and prefix.
func openURL(ctx context.Context, u *url.URL) (driver.Engine, error) {
	r := driverkit.ReadURL("zk", u)
	var opts []Option
	if acl, found := r.Text("acl"); found {
		opts = append(opts, WithCreatorOnly())
		if acl != "creator" {
			r.Fail("the only value of parameter acl is creator")
		}
		if u.User == nil {
			r.Fail("acl=creator needs a user and a password: without them there is no creator")
		}
	}
	if prefix, found := r.Text("prefix"); found {
		opts = append(opts, WithPrefix(prefix))
	}
	if u.User != nil {
		opts = append(opts, WithDigest(r.Login()))
	}
	if path := strings.TrimSuffix(u.Path, "/"); path != "" {
		opts = append(opts, WithPath(path))
		if err := checkPath(path); err != nil {
			r.Fail("the URL's path %v", err)
		}
	}
	servers := r.Hosts(defaultPort)
	if err := r.Err(); err != nil {
		return nil, err
	}
	e, err := Connect(ctx, servers, opts...)
	if err != nil {
		return nil, err
	}
	return e, nil
}
