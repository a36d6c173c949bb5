package adaptertest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/internal/testserver"
)

// leftBehind has the program leave a setting on the connections of its pool, and locks: no
// lock is granted that another client does not see. The one exception, SELECT, is a limit
// in docs/redis.md. CLIENT REPLY is left out: rueidis ends the program by a panic.
func leftBehind(t *testing.T, connect Adapter) {
	const pool = 3
	for _, left := range []string{
		"READONLY", "READWRITE", "ASKING", "CLIENT NO-EVICT on", "CLIENT NO-TOUCH on", "CLIENT SETNAME x", "CLIENT TRACKING on",
		"HELLO 2", "HELLO 3", "WATCH pawl:aa", "MULTI", "RESET", "AUTH other word",
	} {
		t.Run(left, func(t *testing.T) {
			t.Parallel()
			s := testserver.Redis(t)
			newConsole(t, s.Addr()).do("ACL", "SETUSER", "other", "on", ">word", "+@all", "~elsewhere:*", "&*")
			e := connect(t, Config{Addrs: []string{s.Addr()}, Pool: pool})
			one, other := session(t, e, time.Minute), session(t, connect(t, Config{Addrs: []string{s.Addr()}}), time.Minute)
			if err := e.Send(t.Context(), pool, strings.Fields(left)...); err != nil {
				t.Logf("refused: %v", err) // by this server, or out of a cluster: what follows holds all the same
			}
			granted := 0
			for i := range 10 * pool { // on all connections
				c := mutex("aa", fmt.Sprintf("job%d", i))
				ctx, cancel := context.WithTimeout(t.Context(), soon)
				st, err := one.Enter(ctx, c)
				cancel()
				if err != nil || !st.Held {
					continue // the program's own calls fail as well
				}
				granted++
				c.ID, c.Queue = "bb", false
				if st, err := other.Enter(t.Context(), c); err != nil || st.Held {
					t.Errorf("%s is granted twice: %+v, %v", c.Name, st, err)
				}
			}
			t.Logf("%d granted", granted)
			if granted == 0 && left != "MULTI" && left != "AUTH other word" {
				t.Error("nothing is granted")
			}
		})
	}
}
