package mysql

import (
	"testing"

	"github.com/pawl-go/pawl/internal/testserver"
)

// What sets up or restarts its server has it for itself, one after the other, and
// leaves it as it was.
func TestAloneOnAServer(t *testing.T) {
	t.Parallel()
	for kind, start := range map[string]func(testing.TB, ...string) *testserver.Server{"mariadb": testserver.MariaDB, "mysql": testserver.MySQL} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := prepare(t, start(t))
			for _, alone := range []struct {
				name string
				test func(t *testing.T, kind string, s *testserver.Server)
			}{
				{"locks work under any setting of the sessions", anySetting},
				{"levels that meet exclude each other and undo nothing", levelsMeet},
				{"a server on which locks do not hold is refused", refusedServer},
				{"a demoted primary grants nothing though the user may write", demotedPrimary},
				{"a restarted server keeps its locks", restarted},
			} {
				t.Run(alone.name, func(t *testing.T) { alone.test(t, kind, s) })
			}
		})
	}
}
