package driver

import (
	"strings"
	"testing"
)

func TestParseURLAcceptsEveryFormOfAListOfHosts(t *testing.T) {
	t.Parallel()
	for _, list := range []string{
		"h1", "h1:1", "h1,h2", "h1:1,h2", "h1,h2:2", "h1:1,h2:2", "h1:1,h2:2,h3", "h1,h2:2,h3",
		"[::1]", "[::1]:1", "[::1],h2", "h1,[::1]", "h1:1,[::1]:2", "[::1]:1,[::2]", "[::1],[::2]:2", "127.0.0.1:1,127.0.0.1",
		"h1,", ",h2", "h1,,h3", // for the engine to refuse
	} {
		for _, form := range []string{"s://HOSTS", "s://HOSTS/a,b:c", "s://user:p,w@HOSTS/p?q=a://b,c", "s://u@HOSTS?x=1"} {
			u, err := ParseURL(strings.Replace(form, "HOSTS", list, 1))
			if err != nil {
				t.Errorf("%s with %s: %v", form, list, err)
				continue
			}
			if u.Host != list {
				t.Errorf("%s with %s: the hosts are %q", form, list, u.Host)
			}
			if again, err := ParseURL(u.String()); err != nil || again.User.Username() != u.User.Username() || again.Host != u.Host || again.Path != u.Path || again.RawQuery != u.RawQuery {
				t.Errorf("%s with %s: written down as %q it is another (%v)", form, list, u, err)
			}
		}
	}
}

func TestParseURLReadsTheOtherPartsBesideAListOfHosts(t *testing.T) {
	t.Parallel()
	u, err := ParseURL("s://ana:a%2Fb@h1:1,h2/some/path?q=1")
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	if u.Scheme != "s" || u.User.Username() != "ana" || password != "a/b" || u.Path != "/some/path" || u.Query().Get("q") != "1" {
		t.Errorf("%+v", u)
	}
	for _, plain := range []string{"mem:", "sqlite:///a,b:c/d.db", "sqlite:a,b?x=y://z,w", "local:"} {
		if u, err := ParseURL(plain); err != nil || u.String() != plain || u.Host != "" {
			t.Errorf("%s: %+v, %v", plain, u, err)
		}
	}
}

func TestParseURLRefusesMalformedHosts(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"s://h1:x,h2", "s://h1,h2:x/p", "s://[::1,h2", "s://h1,[nine]:1", "s://h 1,h2", "s://u\x00@h1,h2"} {
		if u, err := ParseURL(bad); err == nil {
			t.Errorf("%q: %+v", bad, u)
		}
	}
}
