package natsstore

import (
	"net/url"

	"github.com/nats-io/nats.go"

	"github.com/pawl-go/pawl/driverkit"
)

// DefaultBucket is used when nothing else is configured.
const DefaultBucket = "pawl"

// Settings are what a URL says.
type Settings struct {
	Config      nats.Options
	Creds, Nkey string // files, or empty
	Bucket      string
	Replicas    int // of a bucket that is made; 0: three in a cluster, otherwise one
}

// ParseURL reads the URL of a bucket.
func ParseURL(u *url.URL) (Settings, error) {
	r := driverkit.ReadURL("natslock", u)
	config := nats.GetDefaultOptions()
	for _, host := range r.Hosts("4222") {
		config.Servers = append(config.Servers, "nats://"+host)
	}
	config.TLSConfig = r.TLS(false)
	config.Secure = config.TLSConfig != nil
	config.User, config.Password = r.Login()
	if config.Password == "" {
		config.User, config.Token = "", config.User
	}
	creds, hasCreds := r.Text("creds")
	nkey, hasNkey := r.Text("nkey")
	if hasCreds && hasNkey || u.User != nil && (hasCreds || hasNkey) {
		r.Fail("only one of a user, parameter creds and parameter nkey may be given")
	}
	s := Settings{Config: config, Creds: creds, Nkey: nkey, Bucket: r.Path(), Replicas: r.Number("replicas", 0, 1)}
	if s.Bucket == "" {
		s.Bucket = DefaultBucket
	}
	if err := CheckBucket(s.Bucket); err != nil {
		r.Fail("%v", err)
	}
	return s, r.Err()
}
