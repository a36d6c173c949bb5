package redisdoctor

import (
	"strings"
	"testing"

	"github.com/pawl-go/pawl/driver"
)

// A mend that is a URL can be used as it is, but for the login.
func TestTheURLOfAMendIsThatOfTheNewScheme(t *testing.T) {
	for _, test := range []struct{ store, scheme, parameter, want string }{
		{"redis://u:secret@h:1/2?prefix=p:", "redis", "wait", "-s 'redis://new:6379/2?prefix=p%3A&wait=1'"},
		{"rediss://u:secret@h:1/2", "redis-cluster", "", "-s 'redis-cluster://new:6379?tls=yes'"},
		{"rediss://u:secret@h:1", "rediss", "", "-s 'rediss://new:6379'"},
		{"redis-sentinel://u:secret@h/name/3", "redis", "", "-s 'redis://new:6379/3'"},
		{"redis-sentinel://u:secret@h/name?tls=yes", "redis", "", "-s 'redis://new:6379?tls=yes'"},
		{"redis-sentinel://u:secret@h/name/3?sentinel-auth=yes&scripts=always", "redis", "", "-s 'redis://new:6379/3?scripts=always'"},
		{"rediss://u:secret@h/3?prefix=p&wait=2&wait-timeout=5s", "redis-sentinel", "", "-s 'redis-sentinel://new:6379/NAME/3?prefix=p&tls=yes&wait=2&wait-timeout=5s'"},
		{"redis://h?wait=2&wait-timeout=5s", "redis", "wait=0", "-s 'redis://new:6379?wait=0'"},
		{"redis-sentinel://u:secret@h/name/3", "redis-sentinel", "wait", "-s 'redis-sentinel://new:6379/name/3?wait=1'"},
	} {
		u, err := driver.ParseURL(test.store)
		if err != nil {
			t.Fatal(err)
		}
		s, err := parse(t.Context(), u)
		if err != nil {
			t.Fatal(err)
		}
		parameter, value, ok := strings.Cut(test.parameter, "=")
		if !ok {
			value = "1"
		}
		if got := s.at(test.scheme, "new:6379", parameter, value); got != test.want {
			t.Errorf("%s as %s: %s, want %s", test.store, test.scheme, got, test.want)
		}
	}
}
