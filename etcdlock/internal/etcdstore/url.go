package etcdstore

import (
	"net/url"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driverkit"
)

// ParseURL reads the URL of a cluster. Its errors show nothing that could be a password.
func ParseURL(u *url.URL, defaultPrefix string) (config clientv3.Config, prefix string, err error) {
	r := driverkit.ReadURL("etcdlock", u)
	config = NewConfig()
	scheme := "http://"
	if config.TLS = r.TLS(u.Scheme == "etcds"); config.TLS != nil {
		scheme = "https://"
	}
	for _, host := range r.Hosts("2379") {
		config.Endpoints = append(config.Endpoints, scheme+host)
	}
	config.Username, config.Password = r.Login()
	if u.User != nil && (config.Username == "" || config.Password == "") {
		r.Fail("a user needs a password, and a password a user")
	}
	prefix, given := r.Text("prefix")
	switch path := r.Path(); {
	case given && path != "":
		r.Fail("the URL has a path and a parameter prefix, which say the same")
	case path != "":
		prefix = path
	case !given:
		prefix = defaultPrefix
	}
	return config, prefix, r.Err()
}
