package redisdoctor

import (
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
		if got := s.at(test.scheme, "new:6379", test.parameter, "1"); got != test.want {
			t.Errorf("%s as %s: %s, want %s", test.store, test.scheme, got, test.want)
		}
	}
}
