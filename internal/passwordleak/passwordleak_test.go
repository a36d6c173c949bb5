package passwordleak

import (
	"encoding/base64"
	"net/url"
	"strings"
	"testing"
)

func TestThePasswordIsFoundInEveryForm(t *testing.T) {
	t.Parallel()
	for _, word := range []string{Password, First, Second} {
		for _, text := range []string{
			word, "u:" + word + "@h", strings.ToUpper(word), percent(word), "x" + base64.StdEncoding.EncodeToString([]byte("u:"+word)), base64.StdEncoding.EncodeToString([]byte(word)),
			base64.StdEncoding.EncodeToString([]byte("ana:" + word + "!")), base64.URLEncoding.EncodeToString([]byte("an:" + word)), url.QueryEscape("a/" + word),
		} {
			if Find(text) == "" {
				t.Errorf("%s is not found in %q", word, text)
			}
		}
	}
	if found := Find("store redis://127.0.0.1:6379: connection refused"); found != "" {
		t.Errorf("%q is found where it is not", found)
	}
}

func TestThereAreManyShapesAndEachCarriesThePassword(t *testing.T) {
	t.Parallel()
	all, seen := URLs("redis"), map[string]bool{}
	for _, store := range all {
		if seen[store] {
			t.Errorf("%q is there twice", store)
		}
		seen[store] = true
		if Find(store) == "" {
			t.Errorf("%q carries no password", store)
		}
	}
	if len(all) < 40 {
		t.Errorf("%d shapes", len(all))
	}
}
