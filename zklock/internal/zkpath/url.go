package zkpath

import (
	"net/url"
	"strings"

	"github.com/pawl-go/pawl/driverkit"
)

const defaultPort = "2181"

// Settings are what a URL says.
type Settings struct {
	Servers        []string // host:port
	Path, Prefix   string
	User, Password string
	CreatorOnly    bool
}

// ParseURL reads zk://[user:password@]host[:port][,host[:port]...][/path], with the
// parameters acl=creator and prefix.
func ParseURL(u *url.URL) (Settings, error) {
	r := driverkit.ReadURL("zk", u)
	s := Settings{Path: Default}
	if acl, found := r.Text("acl"); found {
		s.CreatorOnly = true
		if acl != "creator" {
			r.Fail("the only value of parameter acl is creator")
		}
		if u.User == nil {
			r.Fail("acl=creator needs a user and a password: without them there is no creator")
		}
	}
	s.Prefix, _ = r.Text("prefix")
	s.User, s.Password = r.Login()
	if path := strings.TrimSuffix(u.Path, "/"); path != "" {
		s.Path = path
		if err := Check(path); err != nil {
			r.Fail("the URL's path %v", err)
		}
	}
	s.Servers = r.Hosts(defaultPort)
	return s, r.Err()
}
