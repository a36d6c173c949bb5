//go:build unix

package main

import (
	"fmt"
	"strings"
	"testing"
)

// A command that restarts itself through pawl passes its list on every time.
func TestTheListOfOwnersDoesNotGrowForEver(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range 2 * maxOwners {
		many = append(many, fmt.Sprintf("%032x", i))
	}
	many = append(many, strings.Repeat("f", 50_000)) // not an ID
	env := newTestEnv(t).with("PAWL_LOCK_OWNERS=" + strings.Join(many, " "))
	got := env.run("pawl", "run", "x", "--", "pawl", "run", "y", "--", "sh", "-c", `echo $PAWL_LOCK_OWNERS; exec pawl run x -- echo ran`)
	list := strings.Fields(got.out)
	if len(list) != maxOwners || list[0] != many[maxOwners+2] {
		t.Errorf("%d owners, the first is %.40s", len(list), got.out)
	}
	if got.code != exitBusy || !strings.Contains(got.err, `"x" is held by your own parent`) {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
}
