package doctor

import "testing"

func TestQuoteMakesOneWordForTheShell(t *testing.T) {
	for word, want := range map[string]string{
		"/var/lib/redis":   "/var/lib/redis",
		"":                 "''",
		"/tmp; rm -r /":    "'/tmp; rm -r /'",
		"/it's/$(reboot)/": `'/it'\''s/$(reboot)/'`,
	} {
		if got := Quote(word); got != want {
			t.Errorf("%q becomes %s, not %s", word, got, want)
		}
	}
}
