package redisdoctor

import (
	"net/url"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/doctor"
)

// Servers that old cannot be started here.
func TestVersionsWithKnownFaultsAreFound(t *testing.T) {
	for _, test := range []struct {
		scheme, version string
		level           doctor.Level
		meaning, mend   string
	}{
		{"redis", "7.0.15", doctor.OK, "", ""},
		{"redis", "8.2.1", doctor.OK, "", ""},
		{"redis", "6.2.14", doctor.OK, "", ""},
		{"redis", "7.0.2", doctor.Warning, "the append-only file may be missing", "7.0.3 or newer"},
		{"redis", "7.0.3", doctor.OK, "", ""},
		{"redis", "6.0.16", doctor.Warning, "a failed sync is ignored", "6.2.0 or newer"},
		{"redis", "4.0.14", doctor.Broken, "every lock fails", "5.0.0 or newer"},
		{"redis-cluster", "6.2.14", doctor.Broken, "not notified", "7.0.0 or newer"},
		{"redlock", "6.2.14", doctor.Broken, "never votes", "7.0.0 or newer"},
		{"redis", "", doctor.Warning, "needs Redis 5.0.0 or newer", "redis-server --version"},
	} {
		s := &server{store: &store{url: &url.URL{Scheme: test.scheme}}, info: map[string]string{"redis_version": test.version}}
		f := version(t.Context(), s)
		if f.Level != test.level || !strings.Contains(f.Meaning, test.meaning) || !strings.Contains(f.Mend, test.mend) {
			t.Errorf("%s %s: %+v", test.scheme, test.version, f)
		}
	}
}
