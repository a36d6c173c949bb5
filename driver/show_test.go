package driver_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/passwordleak"
)

func TestAStoreIsShownByItsSchemeAndHostsOrItsFile(t *testing.T) {
	t.Parallel()
	known := strings.ToLower(fresh("k"))
	driver.Register(known, opener(nil))
	for store, want := range map[string]string{
		"KNOWN://h":                      "KNOWN://h",
		"KNOWN://u:pw@h:1/path?x=y":      "KNOWN://h:1",
		"KNOWN://u@h1,h_2:2,[::1]:3/db":  "KNOWN://h1,h_2:2,[::1]:3",
		"KNOWN://[fe80::1%25eth0]:1":     "KNOWN://[fe80::1%25eth0]:1",
		"KNOWN://b\u00fccher.example":    "KNOWN://b%C3%BCcher.example",
		"KNOWN:":                         "KNOWN:",
		"KNOWN:opaque":                   "KNOWN:",
		"KNOWN:/path":                    "KNOWN:",
		"KNOWN:///path":                  "KNOWN:",
		"KNOWN://h/u:pw%40x?p=%40":       "KNOWN://h",
		"nobody://h":                     "nobody://h",
		"nobody:":                        "",
		"nobody:opaque":                  "",
		"nobody:/path":                   "",
		"sqlite:///some/file.db?mode=ro": "sqlite:///some/file.db",
		"sqlite:some/file.db?x=y":        "sqlite:some/file.db",
		"sqlite:///home/ana@corp/a.db":   "sqlite:///home/ana@corp/a.db",
		"sqlite:///C:/ana@corp/a.db":     "sqlite:///C:/ana@corp/a.db",
		"local:?ttl=5s":                  "local:",
	} {
		store, want = strings.ReplaceAll(store, "KNOWN", known), strings.ReplaceAll(want, "KNOWN", known)
		u, err := driver.ParseURL(store)
		if err != nil {
			t.Errorf("%s: %v", store, err)
		} else if got := driver.ShowURL(u); got != want {
			t.Errorf("%s is shown as %q, want %q", store, got, want)
		}
	}
}

// The caller has parsed the URL otherwise than by ParseURL.
func TestAnAmbiguousURLIsShownByItsSchemeAtMost(t *testing.T) {
	t.Parallel()
	known := strings.ToLower(fresh("k"))
	driver.Register(known, opener(errors.New("opened")))
	for _, store := range passwordleak.URLs(known) {
		if _, err := driver.ParseURL(store); err == nil {
			continue
		} else if !errors.Is(err, driver.ErrURL) || passwordleak.Find(err.Error()) != "" {
			t.Errorf("%q: %v", store, err)
		}
		u, err := url.Parse(store)
		if err != nil {
			continue
		}
		if got := driver.ShowURL(u); got != "" && got != u.Scheme+":" {
			t.Errorf("%q is shown as %q", store, got)
		}
		if open, ok := driver.Lookup(u.Scheme); ok {
			if _, err := open(t.Context(), u); !errors.Is(err, driver.ErrURL) {
				t.Errorf("%q was given to the opener: %v", store, err)
			}
		}
	}
}

func TestAnUnknownParameterIsNamedUnlessItMayBePartOfAPassword(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"colour=red":           `parameter "colour"`,
		"a=1&colour=red":       `parameter "colour"`,
		"colour":               "parameter",
		"colour=":              "parameter",
		"colour=red&pass=x":    "parameter",
		"colour%20x=red":       "parameter",
		"colour=red%40h":       `parameter "colour"`,
		"colour=red@h":         "parameter",
		"colour=1&sslkey=file": `parameter "colour"`,
	} {
		u, err := url.Parse("s://h?" + query)
		if err != nil {
			t.Fatal(err)
		}
		name := "colour"
		if strings.Contains(query, "%20") {
			name = "colour x"
		}
		if got := driver.ShowParameter(u, name); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	for name, secret := range map[string]bool{
		"password": true, "sslpassword": true, "pass": true, "tls-key-password": true, "Token": true, "api_key": true, "auth": true,
		"tls-key": false, "key": false, "sslkey": false, "passfile": false, "sentinel-auth": false, "prefix": false, "user": false,
	} {
		if driver.SecretParameter(name) != secret {
			t.Errorf("%s: %v", name, !secret)
		}
	}
}
