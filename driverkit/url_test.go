package driverkit_test

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

func reader(t *testing.T, text string) *driverkit.URL {
	t.Helper()
	u, err := driver.ParseURL(text)
	if err != nil {
		t.Fatal(err)
	}
	return driverkit.ReadURL("engine", u)
}

func TestHostsHaveAPortEach(t *testing.T) {
	for text, want := range map[string]string{
		"x://a":                  "a:99",
		"x://a:1,b,c:3":          "a:1 b:99 c:3",
		"x://[::1]":              "[::1]:99",
		"x://[::1]:7,[fe80::2]":  "[::1]:7 [fe80::2]:99",
		"x://user:secret@a:1,b/": "a:1 b:99",
		"x:///path":              "",
		"x://a,,b":               "",
		"x://a:":                 "",
	} {
		r := reader(t, text)
		hosts := strings.Join(r.Hosts("99"), " ")
		switch err := r.Err(); {
		case want == "" && !errors.Is(err, driver.ErrURL), want == "" && strings.Contains(err.Error(), "secret"):
			t.Errorf("%s: %v", text, err)
		case want != "" && (err != nil || hosts != want):
			t.Errorf("%s: %q, %v, not %q", text, hosts, err, want)
		}
	}
}

func TestParametersAreReadByTheirKind(t *testing.T) {
	for _, c := range []struct{ text, fault string }{
		{"x://h", ""},
		{"x://h?prefix=p&wait=2&limit=3s&evict=yes&scripts=never", ""},
		{"x://h?old=p", ""},
		{"x://h?old=p&prefix=q", "parameters prefix and old say the same: leave one out"},
		{"x://h?prefix=p&prefix=p", "parameter prefix stands twice: leave one out"},
		{"x://h?old=p&old=q", "parameter old stands twice: leave one out"},
		{"x://h?wait=-1", "parameter wait is not a number of 0 or more"},
		{"x://h?wait=two", "parameter wait is not a number of 0 or more"},
		{"x://h?limit=1us", "parameter limit is not a duration of 1ms or more"},
		{"x://h?evict=maybe", "parameter evict is not yes or no"},
		{"x://h?scripts=perhaps", "parameter scripts is not one of auto, never"},
		{"x://h?colour=red", `unknown parameter "colour" (known: prefix, wait, limit, evict, scripts)`},
		{"x://h?a;b", "the URL's parameters make no sense: write %3B for ;"},
	} {
		r := reader(t, c.text)
		prefix, found := r.Text("prefix", "old")
		wait, limit := r.Number("wait", 1, 0), r.Duration("limit", time.Minute, time.Millisecond)
		evict, scripts := r.YesNo("evict", false), r.OneOf("scripts", "auto", "never")
		err := r.Err()
		if c.fault != "" {
			if !errors.Is(err, driver.ErrURL) || err.Error() != "engine: "+c.fault {
				t.Errorf("%s: %v, not %q", c.text, err, c.fault)
			}
			continue
		}
		all := strings.Contains(c.text, "wait")
		if err != nil || (prefix == "p") != found || (wait == 2) != all || (limit == 3*time.Second) != all || evict != all || (scripts == "never") != all {
			t.Errorf("%s: %q %v %d %v %v %q, %v", c.text, prefix, found, wait, limit, evict, scripts, err)
		}
	}
}

func TestAnEngineWithoutParametersSaysSo(t *testing.T) {
	r := driverkit.ReadURL("engine", &url.URL{Scheme: "x", RawQuery: "colour=red"})
	if err := r.Err(); err == nil || err.Error() != `engine: unknown parameter "colour" (known: none)` {
		t.Error(err)
	}
}

func TestLoginAndPath(t *testing.T) {
	r := reader(t, "x://ana:s%2Fecret@h/team/a/")
	if user, password := r.Login(); user != "ana" || password != "s/ecret" || r.Path() != "team/a" {
		t.Errorf("%q, %q, %q", user, password, r.Path())
	}
	if user, password := reader(t, "x://h").Login(); user+password != "" {
		t.Errorf("%q, %q", user, password)
	}
}

func TestTLSIsReadFromParameters(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "missing.pem")
	for _, c := range []struct {
		query  string
		scheme bool // asks for TLS
		want   string
	}{
		{"", false, "none"},
		{"tls=no", false, "none"},
		{"", true, "checked"},
		{"tls=yes", false, "checked"},
		{"tls=on&tls-name=db", false, "checked db"},
		{"tls=skip-verify", false, "unchecked"},
		{"tls=skip-verify", true, "unchecked"},
		{"tls=no", true, "engine: parameter tls contradicts x://"},
		{"tls=perhaps", true, "engine: parameter tls is not yes, no or skip-verify"},
		{"tls-ca=f", false, "engine: tls- parameters have no use without TLS: add tls=yes"},
		{"ca=f", false, "engine: tls- parameters have no use without TLS: add tls=yes"},
		{"tls-cert=f", true, "engine: parameters tls-cert and tls-key go together"},
		{"tls-ca=" + empty, true, "engine: parameter tls-ca: no certificate in the file"},
		{"ca=" + missing, true, "engine: parameter tls-ca: no such file or directory"},
		{"cert=" + missing + "&key=" + missing, true, "engine: parameters tls-cert and tls-key: no such file or directory"},
	} {
		r := driverkit.ReadURL("engine", &url.URL{Scheme: "x", Host: "h", RawQuery: c.query})
		config, got := r.TLS(c.scheme), ""
		switch err := r.Err(); {
		case err != nil:
			got = err.Error()
			if !errors.Is(err, driver.ErrURL) {
				t.Errorf("%s, scheme %v: %v, not ErrURL", c.query, c.scheme, err)
			}
		case config == nil:
			got = "none"
		case config.InsecureSkipVerify:
			got = "unchecked"
		default:
			got = strings.TrimSpace("checked " + config.ServerName)
		}
		if got != c.want {
			t.Errorf("%s, scheme %v: %q, not %q", c.query, c.scheme, got, c.want)
		}
	}
}

func TestTLSParametersAreKnown(t *testing.T) {
	r := driverkit.ReadURL("engine", &url.URL{Scheme: "x", Host: "h", RawQuery: "colour=red"})
	r.TLS(false)
	if err := r.Err(); err == nil || !strings.Contains(err.Error(), "(known: tls, tls-ca, tls-cert, tls-key, tls-name)") {
		t.Error(err)
	}
}
