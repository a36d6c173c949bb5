package zklock

import (
	"context"
	"net"
	"net/url"
	"strings"

	"github.com/pawl-go/pawl/driver"
)

func init() { driver.Register("zk", openURL) }

// openURL opens zk://[user:password@]host[:port][,host[:port]...][/path], with the
// parameters acl=creator and prefix.
func openURL(ctx context.Context, u *url.URL) (driver.Engine, error) {
	var opts []Option
	for key, values := range u.Query() {
		switch value := values[len(values)-1]; {
		case key == "prefix":
			opts = append(opts, WithPrefix(value))
		case key == "acl" && value == "creator":
			opts = append(opts, WithCreatorOnly())
		case key == "acl":
			return nil, driver.BadURL("zk: the only value of parameter acl is creator")
		default:
			return nil, driver.BadURL("zk: unknown %s (known: acl, prefix)", driver.ShowParameter(u, key))
		}
	}
	if u.Host == "" {
		return nil, driver.BadURL("zk: the URL has no servers: write zk://host1,host2/path")
	}
	if u.Fragment != "" {
		return nil, driver.BadURL("zk: # begins a fragment in a URL: write %%23")
	}
	servers, err := addresses(u.Host)
	if err != nil {
		return nil, err
	}
	if path := strings.TrimSuffix(u.Path, "/"); path != "" {
		if err := checkPath(path); err != nil {
			return nil, driver.BadURL("zk: the URL's path %v", err)
		}
		opts = append(opts, WithPath(path))
	}
	if u.User != nil {
		password, _ := u.User.Password()
		opts = append(opts, WithDigest(u.User.Username(), password))
	} else if u.Query().Has("acl") {
		return nil, driver.BadURL("zk: acl=creator needs a user and a password: without them there is no creator")
	}
	e, err := Connect(ctx, servers, opts...)
	if err != nil {
		return nil, err
	}
	return e, nil
}

const defaultPort = "2181"

// addresses splits a list of hosts into addresses with ports.
func addresses(list string) ([]string, error) {
	var all []string
	for host := range strings.SplitSeq(list, ",") {
		name, port, err := net.SplitHostPort(host)
		if err != nil { // mostly that it has no port
			name, port = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), defaultPort
		}
		switch {
		case name == "" || port == "":
			return nil, driver.BadURL("zk: a server has no name: write zk://host1,host2/path")
		case strings.Contains(name, ":") && !strings.HasPrefix(host, "["):
			return nil, driver.BadURL("zk: a server is not host:port; an IPv6 address stands in brackets")
		}
		all = append(all, net.JoinHostPort(name, port))
	}
	return all, nil
}
