package etcdstore

import (
	"slices"
	"testing"

	"github.com/pawl-go/pawl/driver"
)

func TestAURLIsParsed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		endpoints      []string
		prefix         string
		user, password string
		tls            bool
	}{
		"etcd://localhost":                    {endpoints: []string{"http://localhost:2379"}, prefix: "pawl"},
		"etcd://localhost/":                   {endpoints: []string{"http://localhost:2379"}, prefix: "pawl"},
		"etcd://a,b,c/team/locks":             {endpoints: []string{"http://a:2379", "http://b:2379", "http://c:2379"}, prefix: "team/locks"},
		"etcd://a:1,b:2?prefix=x":             {endpoints: []string{"http://a:1", "http://b:2"}, prefix: "x"},
		"etcd://a:1,b/x":                      {endpoints: []string{"http://a:1", "http://b:2379"}, prefix: "x"},
		"etcd://a,[::1]":                      {endpoints: []string{"http://a:2379", "http://[::1]:2379"}, prefix: "pawl"},
		"etcd://a?prefix=":                    {endpoints: []string{"http://a:2379"}, prefix: ""},
		"etcd://[::1]:1/x":                    {endpoints: []string{"http://[::1]:1"}, prefix: "x"},
		"etcd://[::1]/x":                      {endpoints: []string{"http://[::1]:2379"}, prefix: "x"},
		"etcds://ana:s%2Fcret@a/x":            {endpoints: []string{"https://a:2379"}, prefix: "x", user: "ana", password: "s/cret", tls: true},
		"etcd://a/x?tls=on":                   {endpoints: []string{"https://a:2379"}, prefix: "x", tls: true},
		"etcd://a/team%20one?tls=skip-verify": {endpoints: []string{"https://a:2379"}, prefix: "team one", tls: true},
	} {
		u, err := driver.ParseURL(text)
		if err != nil {
			t.Fatal(err)
		}
		config, prefix, err := ParseURL(u, "pawl")
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if !slices.Equal(config.Endpoints, want.endpoints) || prefix != want.prefix || config.Username != want.user ||
			config.Password != want.password || (config.TLS != nil) != want.tls {
			t.Errorf("%s: endpoints %q, prefix %q, user %q, TLS %v", text, config.Endpoints, prefix, config.Username, config.TLS != nil)
		}
	}
}
