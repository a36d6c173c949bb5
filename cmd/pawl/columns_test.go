package main

import (
	"strings"
	"testing"
)

func TestCutNeverTakesMoreThanItMay(t *testing.T) {
	for _, s := range []string{"", "x", "twelve bytes", "船🚀船🚀", "é·…é", strings.Repeat("wide 船 ", 20)} {
		for most := -1; most < 30; most++ {
			got := cut(s, most)
			if n := displayWidth(got); n > max(0, most) {
				t.Errorf("cut(%q, %d) = %q takes %d", s, most, got, n)
			}
			if got != s && most > 0 && (!strings.HasSuffix(got, "…") || !strings.HasPrefix(s, strings.TrimSuffix(got, "…"))) {
				t.Errorf("cut(%q, %d) = %q", s, most, got)
			}
			if displayWidth(s) <= most && got != s {
				t.Errorf("cut(%q, %d) = %q, though it fits", s, most, got)
			}
		}
	}
}

func TestColumnsAreOneBelowTheOther(t *testing.T) {
	got := columns([][]string{{"NAME", "N", "LAST"}, {"a", "1", "x"}, {"船船船", "22", ""}})
	want := "NAME    N   LAST\na       1   x\n船船船  22  \n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
